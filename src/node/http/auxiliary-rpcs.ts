import { createConnectRouter } from "@connectrpc/connect";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { capTimeouts } from "../../transport/rpc/timeout-header.ts";
import { addHealth } from "./health.ts";
import { addReflection } from "./reflection.ts";
import type { Rpc } from "./routes.ts";

/** No message of these is longer than a name. */
const maximumOctets = 16 * 1024;

/** What tools and probes ask of any server of gRPC: whether it serves, and what. */
export function auxiliaryRpcs(isServing: () => Promise<boolean>): readonly [string, Rpc][] {
  const router = createConnectRouter({ readMaxBytes: maximumOctets });
  addHealth(router, [IstioCertificateService.typeName], isServing);
  addReflection(router, [IstioCertificateService, Health]);
  return router.handlers.map((handler) => [
    handler.requestPath,
    (request) => handler({ ...request, header: capTimeouts(request.header) }),
  ]);
}
