import {
  type DescFile,
  type DescService,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  type HandlerContext,
} from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { addressOf } from "../../foundation/addresses.ts";
import { capTimeouts } from "../../foundation/headers.ts";
import { pause, untilEnding } from "../../foundation/pause.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/grpc/health/v1/health_pb.ts";
import {
  ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponseSchema,
} from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { JwtSvidService } from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { peerKey } from "../../transport/rpc/rpc.ts";
import { Shares } from "../limits/shares.ts";
import type { Rpc, Rpcs, StreamingRpc } from "./routes.ts";

/** Their messages hold little more than a name. */
const maximumOctets = 16 * 1024;

/** The ports that answer streams of health and reflection: a caller holds one at no cost of its own. */
export type DiagnosticRpcs = "monitoring" | "everywhere";

/** The services that issue, and share one health. */
export const issuingServices = [IstioCertificateService, JwtSvidService] as const;

const healthCheckPath = "/grpc.health.v1.Health/Check";

/** The health checks and the reflection of gRPC. Every stream ends with the server. */
export function auxiliaryRpcs(
  isServing: () => Promise<boolean>,
  where: DiagnosticRpcs,
  ending: AbortSignal,
) {
  const router = createConnectRouter({ readMaxBytes: maximumOctets });
  const names = issuingServices.map(({ typeName }) => typeName);
  addHealth(router, names, isServing, ending);
  addReflection(router, [...issuingServices, Health], holdStreams(), ending);
  const forMonitoring = rpcsOf(router.handlers);
  const checks = [...forMonitoring.rpcs].filter(([path]) => path === healthCheckPath);
  const forCallers: Rpcs = where === "everywhere" ? forMonitoring : { rpcs: new Map(checks) };
  return { forCallers, forMonitoring };
}

export type AuxiliaryRpcs = ReturnType<typeof auxiliaryRpcs>;

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

type Question = ServerReflectionRequest["messageRequest"];

type Answer = NonNullable<
  MessageInitShape<typeof ServerReflectionResponseSchema>["messageResponse"]
>;

/** Lets a caller hold a stream. @throws ConnectError where too many do. */
type HoldStream = <T>(context: HandlerContext, stream: AsyncIterable<T>) => AsyncGenerator<T, void>;

/** Adds gRPC's server reflection for these services and itself. */
export function addReflection(
  router: ConnectRouter,
  services: readonly DescService[],
  hold: HoldStream,
  ending: AbortSignal,
): void {
  const catalogue = catalogueOf([...services, ServerReflection]);
  async function* answers(requests: AsyncIterable<ServerReflectionRequest>) {
    const asked = requests[Symbol.asyncIterator]();
    for (;;) {
      const next = asked.next();
      await untilEnding(next, ending);
      if (ending.aborted) return;
      const { done, value } = await next;
      if (done) return;
      yield { validHost: value.host, messageResponse: answer(catalogue, value.messageRequest) };
    }
  }
  router.service(ServerReflection, {
    serverReflectionInfo: (requests, context) => hold(context, answers(requests)),
  });
}

function answer({ services, byName, bySymbol }: Catalogue, question: Question): Answer {
  switch (question.case) {
    case "listServices":
      return {
        case: "listServicesResponse",
        value: { service: services.map((name) => ({ name })) },
      };
    case "fileByFilename":
      return filesOf(byName.get(question.value));
    case "fileContainingSymbol":
      return filesOf(bySymbol.get(question.value));
    case "allExtensionNumbersOfType":
      return bySymbol.has(question.value)
        ? { case: "allExtensionNumbersResponse", value: { baseTypeName: question.value } }
        : notFound;
    default:
      return notFound;
  }
}

const notFound: Answer = {
  case: "errorResponse",
  value: { errorCode: Code.NotFound, errorMessage: "not found" },
};

/** A file, and every file that it needs, itself first. */
function filesOf(file: DescFile | undefined): Answer {
  if (!file) return notFound;
  const fileDescriptorProto = [...withDependencies(file)].map(({ proto }) =>
    toBinary(FileDescriptorProtoSchema, proto),
  );
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
}

function withDependencies(file: DescFile, found = new Set<DescFile>()): Set<DescFile> {
  found.add(file);
  for (const each of file.dependencies) if (!found.has(each)) withDependencies(each, found);
  return found;
}

type Catalogue = ReturnType<typeof catalogueOf>;

/** The services and their files, indexed once. */
function catalogueOf(services: readonly DescService[]) {
  const files = new Set(services.flatMap(({ file }) => [...withDependencies(file)]));
  const bySymbol = new Map<string, DescFile>();
  for (const file of files) for (const name of symbolsOf(file)) bySymbol.set(name, file);
  return {
    services: services.map(({ typeName }) => typeName),
    byName: new Map([...files].map((file) => [file.proto.name, file])),
    bySymbol,
  };
}

/** The full names that a file declares: types at every depth, services, methods. */
function symbolsOf(file: DescFile): string[] {
  return [...nestedTypes(file)].flatMap((type) =>
    type.kind === "service"
      ? [type.typeName, ...type.methods.map(({ name }) => `${type.typeName}.${name}`)]
      : [type.typeName],
  );
}
