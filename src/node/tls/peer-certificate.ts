import type { TLSSocket } from "node:tls";
import { parseClientCertificate } from "../../authn/certificate/client-certificate.ts";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import { CaError } from "../../foundation/errors.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { Peer } from "../../transport/peer.ts";

/** The rules for a client certificate, and the log of its refusal. */
export interface ClientVerification {
  readonly trustDomain: TrustDomain;
  readonly clock: () => Date;
  readonly log: EventLog;
}

/**
 * The peer of a new connection, which may have no certificate. OpenSSL has verified the chain of a
 * certificate against the current roots, for use by a client. It must also name one workload of this
 * mesh.
 *
 * @returns `undefined` for an unacceptable certificate. The caller must not serve that connection.
 */
export function clientOf(socket: TLSSocket, verification: ClientVerification): Peer | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (!certificate) return {};
  const { trustDomain, clock, log } = verification;
  const refused = (detail: string): undefined => {
    const peer = socket.remoteAddress;
    log.operation({ event: "client-certificate-refused", level: "warning", detail, peer });
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
