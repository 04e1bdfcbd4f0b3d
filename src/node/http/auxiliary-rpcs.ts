import { Code, ConnectError, type ConnectRouter, createConnectRouter } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { addressOf } from "../../foundation/addresses.ts";
import { capTimeouts } from "../../foundation/headers.ts";
import { pause } from "../../foundation/pause.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { JwtSvidService } from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { peerKey } from "../../transport/rpc/rpc.ts";
import { Shares } from "../limits/shares.ts";
import { addReflection, type HoldStream } from "./reflection.ts";
import type { Rpc, Rpcs, StreamingRpc } from "./routes.ts";

/** Their messages hold little more than a name. */
const maximumOctets = 16 * 1024;

/** The ports that answer streams of health and reflection: a caller holds one at no cost of its own. */
export type DiagnosticRpcs = "monitoring" | "everywhere";

/** The health checks and the reflection of gRPC, for probes and tools. */
export interface AuxiliaryRpcs {
  readonly forCallers: Rpcs;
  readonly forMonitoring: Rpcs;
}

/** The services that issue, and share one health. */
export const issuingServices = [IstioCertificateService, JwtSvidService] as const;

const healthCheckPath = "/grpc.health.v1.Health/Check";

/** @param ending Aborted when the server ends, and with it every stream. */
export function auxiliaryRpcs(
  isServing: () => Promise<boolean>,
  where: DiagnosticRpcs,
  ending: AbortSignal,
): AuxiliaryRpcs {
  const router = createConnectRouter({ readMaxBytes: maximumOctets });
  const names = issuingServices.map(({ typeName }) => typeName);
  addHealth(router, names, isServing, ending);
  addReflection(router, [...issuingServices, Health], holdStreams(), ending);
  const forMonitoring = rpcsOf(router.handlers);
  if (where === "everywhere") return { forCallers: forMonitoring, forMonitoring };
  const rpcs = new Map([...forMonitoring.rpcs].filter(([path]) => path === healthCheckPath));
  return { forCallers: { rpcs }, forMonitoring };
}

/** Connect's handlers as RPCs of a server. */
export function rpcsOf(handlers: readonly UniversalHandler[]): Rpcs {
  const [rpcs, streamingRpcs] = [new Map<string, Rpc>(), new Map<string, StreamingRpc>()];
  for (const handler of handlers) {
    const isStreaming = ["client_streaming", "bidi_streaming"].includes(handler.method.methodKind);
    if (isStreaming) streamingRpcs.set(handler.requestPath, streaming(handler));
    else rpcs.set(handler.requestPath, whole(handler));
  }
  return { rpcs, streamingRpcs };
}

function whole(handler: UniversalHandler): Rpc {
  return ({ body, headers, ...request }) => {
    const chunks = async function* () {
      yield await body();
    };
    return handler({ ...request, header: capTimeouts(headers()), body: chunks() });
  };
}

function streaming(handler: UniversalHandler): StreamingRpc {
  return ({ body, headers, ...request }) => {
    // A handler that stops reading early still has to answer.
    const chunks = body.iterator({ destroyOnReturn: false });
    return handler({ ...request, header: capTimeouts(headers()), body: chunks });
  };
}

/** The time between two reads of the state for a watcher. */
const watchMilliseconds = 1000;

/** The streams of one RPC, which callers hold for as long as they like. */
const maximumStreams = 32;

/** A network holds no more streams than are left for all others. */
function holdStreams(): HoldStream {
  const held = new Shares<never, "streams">({ streams: 0 });
  return async function* hold({ values }, stream) {
    const address = addressOf(values.get(peerKey).address);
    if (held.of(address).network.amounts.streams >= maximumStreams - held.inAll("streams")) {
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
