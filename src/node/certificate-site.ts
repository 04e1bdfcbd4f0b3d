import type { Bytes } from "../pki/bytes.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";
import { createCertificateRpc } from "../transport/certificate-rpc.ts";
import { createHttpApp } from "../transport/http-app.ts";
import { chunkedBody } from "../transport/request-body.ts";
import type { Rpc, Site } from "./site.ts";

/** The CA's RPC, for platforms with trailers. */
export function certificateRpc(ca: CertificateAuthority): Rpc {
  const rpc = createCertificateRpc(ca, { hasTrailers: true });
  return (request) => rpc({ ...request, body: (signalOf) => chunkedBody(request.body, signalOf) });
}

/**
 * Everything else that the CA answers, and the RPC for those who have only HTTP/1.1.
 *
 * @param ending Aborted when the server ends.
 */
export function certificateFetch(ca: CertificateAuthority, ending: AbortSignal): Site["fetch"] {
  const certificates = new WeakMap<Request, Bytes>();
  const app = createHttpApp(ca, (request) => certificates.get(request), ending);
  return async (request, { clientCertificate }) => {
    if (clientCertificate) certificates.set(request, clientCertificate);
    return app.fetch(request);
  };
}
