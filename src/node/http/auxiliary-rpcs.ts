import { createConnectRouter } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { capTimeouts } from "../../foundation/http/timeout-header.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { addHealth } from "./health.ts";
import { addReflection } from "./reflection.ts";
import type { Rpc } from "./routes.ts";

/** Their messages hold little more than a name. */
const maximumOctets = 16 * 1024;

/** The ports that answer streams of health and reflection: a caller holds one at no cost of its own. */
export type DiagnosticRpcs = "monitoring" | "everywhere";

/** RPCs by their paths. */
type Rpcs = readonly (readonly [string, Rpc])[];

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
  const forCallers = forMonitoring.filter(
    ([path]) => where === "everywhere" || path === healthCheckPath,
  );
  return { forCallers, forMonitoring };
}

/** Connect's handlers as RPCs of a server, by their paths. */
export function rpcsOf(handlers: readonly UniversalHandler[]): Rpcs {
  return handlers.map((handler): [string, Rpc] => [
    handler.requestPath,
    ({ body, header, ...request }) => {
      // A handler that stops reading early still has to answer.
      const chunks = body.iterator({ destroyOnReturn: false });
      return handler({ ...request, header: capTimeouts(header), body: chunks });
    },
  ]);
}
