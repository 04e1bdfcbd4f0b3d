import type { TLSSocket } from "node:tls";
import { parseClientCertificate } from "../../authn/certificate/client-certificate.ts";
import type { EventLog } from "../../ca/audit-event.ts";
import { CaError } from "../../foundation/errors.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { Peer } from "../http/routes.ts";

/** What a presented certificate is held to, and where it is said that it was not good enough. */
export interface ClientVerification {
  readonly trustDomain: TrustDomain;
  readonly clock: () => Date;
  readonly log: EventLog;
}

/**
 * Who has just connected: somebody unknown without a certificate, or the holder of one whose chain
 * OpenSSL has verified against the roots of the moment, for a client's use, and which names one workload
 * of this mesh.
 *
 * @returns `undefined` for a certificate that is not good; the connection must not be served then.
 */
export function clientOf(socket: TLSSocket, verification: ClientVerification): Peer | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (!certificate) return { clientCertificate: undefined };
  const { trustDomain, clock, log } = verification;
  const refused = (detail: string): undefined => {
    log.operation({ event: "client-certificate-refused", level: "warning", detail });
  };
  if (!socket.authorized) return refused(`not verified: ${String(socket.authorizationError)}`);
  const clientCertificate = new Uint8Array(certificate.raw);
  try {
    parseClientCertificate(clientCertificate, trustDomain, clock());
    return { clientCertificate };
  } catch (error) {
    if (error instanceof CaError) return refused(error.message);
    throw error;
  }
}
