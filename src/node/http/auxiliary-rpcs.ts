import { createConnectRouter } from "@connectrpc/connect";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { capTimeouts } from "../../transport/rpc/timeout-header.ts";
import { addHealth } from "./health.ts";
import { addReflection } from "./reflection.ts";
import type { Rpc } from "./routes.ts";

/** No message of these is longer than a name. */
const maximumOctets = 16 * 1024;

/** Where streams of health and reflection are answered: they cost a caller nothing, and the server a place. */
export type DiagnosticRpcs = "monitoring" | "everywhere";

/** RPCs by their paths. */
type Rpcs = readonly (readonly [string, Rpc])[];

/** What tools and probes ask of any server of gRPC: whether it serves, and what. */
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
  const forMonitoring = router.handlers.map((handler): [string, Rpc] => [
    handler.requestPath,
    (request) => handler({ ...request, header: capTimeouts(request.header) }),
  ]);
  const forCallers = forMonitoring.filter(
    ([path]) => where === "everywhere" || path === healthCheckPath,
  );
  return { forCallers, forMonitoring };
}
