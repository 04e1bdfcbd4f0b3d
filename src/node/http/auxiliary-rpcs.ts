import { createConnectRouter } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { capTimeouts } from "../../foundation/http/timeout-header.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { addHealth } from "./health.ts";
import { addReflection } from "./reflection.ts";
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

const healthCheckPath = "/grpc.health.v1.Health/Check";

export function auxiliaryRpcs(
  isServing: () => Promise<boolean>,
  where: DiagnosticRpcs,
): AuxiliaryRpcs {
  const router = createConnectRouter({ readMaxBytes: maximumOctets });
  addHealth(router, [IstioCertificateService.typeName], isServing);
  addReflection(router, [IstioCertificateService, Health]);
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
