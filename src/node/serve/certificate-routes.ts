import type { CertificateAuthority } from "../../transport/certificate-authority.ts";
import { createCertificateService } from "../../transport/rpc/certificate-service.ts";
import { streamBody } from "../http/request-body.ts";
import type { UnaryRpc } from "../http/routes.ts";

/** The CA's RPC, for platforms with trailers. */
export function certificateService(ca: CertificateAuthority): UnaryRpc {
  const rpc = createCertificateService(ca, { hasTrailers: true });
  return (request) => rpc({ ...request, body: () => streamBody(request.body) });
}
