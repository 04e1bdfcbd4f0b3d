import type { CertificateAuthority } from "../../transport/certificate-authority.ts";
import { createCertificateRpc } from "../../transport/rpc/certificate-service.ts";
import { chunkedBody } from "../../transport/rpc/request-body.ts";
import type { UnaryRpc } from "../http/site.ts";

/** The CA's RPC, for platforms with trailers. */
export function certificateRpc(ca: CertificateAuthority): UnaryRpc {
  const rpc = createCertificateRpc(ca, { hasTrailers: true });
  return (request) => rpc({ ...request, body: (signalOf) => chunkedBody(request.body, signalOf) });
}
