import {
  Code,
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { CallTimeout } from "../../foundation/headers.ts";
import { pause } from "../../foundation/pause.ts";
import { CallerAddress, Shares } from "../../foundation/shares.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { JwtSvidService } from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { readLater } from "../../transport/rpc/fallback.ts";
import { Peer } from "../../transport/rpc/rpc.ts";
import type { Rpc, Rpcs } from "./routes.ts";

/** Enough for their messages, which have little more than a name. */
const maximumOctets = 16 * 1024;

/** The ports that answer streams of health. Callers may hold them open at no cost, so not every port answers them. */
export type DiagnosticRpcs = "monitoring" | "everywhere";

/** The services that issue. They share one state of health. */
export const issuingServices = [IstioCertificateService, JwtSvidService] as const;

const healthCheckPath = "/grpc.health.v1.Health/Check";

/** Creates gRPC's health service; callers get its streams only `everywhere`. Every stream ends with the server. */
export function auxiliaryRpcs(
  isServing: () => Promise<boolean>,
  where: DiagnosticRpcs,
  ending: AbortSignal,
) {
  const router = createConnectRouter({ readMaxBytes: maximumOctets });
  const names = issuingServices.map(({ typeName }) => typeName);
  addHealth(router, names, isServing, ending);
  const forMonitoring = rpcsOf(router.handlers);
  const checks = [...forMonitoring.rpcs].filter(([path]) => path === healthCheckPath);
  const forCallers: Rpcs = where === "everywhere" ? forMonitoring : { rpcs: new Map(checks) };
  return { forCallers, forMonitoring };
}

/** The RPCs beside issuance: gRPC's health service. */
export type AuxiliaryRpcs = ReturnType<typeof auxiliaryRpcs>;

/** Converts Connect's handlers to RPCs of a server, by their paths. */
export const rpcsOf = (handlers: readonly UniversalHandler[]): Rpcs => ({
  rpcs: new Map(handlers.map((handler) => [handler.requestPath, toRpc(handler)])),
});

function toRpc(handler: UniversalHandler): Rpc {
  return ({ body: read, headers, peer, ...request }) => {
    const header = CallTimeout.cap(headers());
    const body = readLater(read, handler.method.input, header);
    const contextValues = createContextValues().set(Peer.key, peer);
    return handler({ ...request, header, body, contextValues });
  };
}

/** The time between two reads of the state for a watcher. */
const watchMilliseconds = 1000;

/** The most streams of health, which callers may hold open for ever. */
const maximumStreams = 32;

/** Admits a long-lived stream. @throws ConnectError at the stream limit. */
type HoldStream = <T>(context: HandlerContext, stream: AsyncIterable<T>) => AsyncGenerator<T, void>;

/** Bounds long-lived streams in all. A network may have only as many as are left for all others. */
function holdStreams(): HoldStream {
  const held = new Shares<never, "streams">({ streams: 0 });
  return async function* hold({ values }, stream) {
    const address = CallerAddress.of(values.get(Peer.key).address);
    if (!held.leavesAsMuch(address, "streams", maximumStreams)) {
      throw new ConnectError("too many hold a stream already", Code.ResourceExhausted);
    }
    held.count(address, "streams", 1);
    try {
      yield* stream;
    } finally {
      held.count(address, "streams", -1);
    }
  };
}

/**
 * gRPC's health checking protocol, for Kubernetes' probes and for load balancers.
 *
 * @param services Full names of the services that share one state; the server as a whole is "".
 */
function addHealth(
  router: ConnectRouter,
  services: readonly string[],
  isServing: () => Promise<boolean>,
  ending: AbortSignal,
): void {
  const isKnown = (name: string): boolean => name === "" || services.includes(name);
  const statusNow = async (): Promise<Status> =>
    (await isServing()) ? Status.SERVING : Status.NOT_SERVING;
  const hold = holdStreams();

  async function* statuses(
    service: string,
    signal: AbortSignal,
  ): AsyncGenerator<{ status: Status }> {
    let sent: Status | undefined;
    const over = AbortSignal.any([signal, ending]);
    while (!signal.aborted) {
      const isLast = ending.aborted;
      const status = isKnown(service) ? await statusNow() : Status.SERVICE_UNKNOWN;
      if (status !== sent) yield { status };
      if (isLast) return;
      sent = status;
      await pause(watchMilliseconds, over);
    }
  }

  router.service(Health, {
    check: async ({ service }) => {
      if (!isKnown(service)) throw new ConnectError("no such service", Code.NotFound);
      return { status: await statusNow() };
    },
    watch: ({ service }, context) => hold(context, statuses(service, context.signal)),
  });
}
