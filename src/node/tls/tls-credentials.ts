import { constants } from "node:crypto";
import type { TLSSocket, TlsOptions } from "node:tls";
import { parseClientCertificate } from "../../authn/client-certificate.ts";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import { CaError } from "../../foundation/errors.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { Peer } from "../../transport/rpc/rpc.ts";
import type { ServingCertificate } from "./serving-certificate.ts";

/** The certificate of a TLS server, and the roots to which its clients' certificates must lead. */
export interface ServerCredentials {
  readonly certificate: ServingCertificate;
  /** PEM, one after the other; empty when no client certificate can be verified. */
  readonly clientRoots: string;
}

/** AES-GCM alone: ztunnel accepts no other, and every other client has it (docs/explanation/istio.md#clients). */
const cipherSuites = [
  "TLS_AES_256_GCM_SHA384",
  "TLS_AES_128_GCM_SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
].join(":");

/**
 * HTTP/2 or HTTP/1.1, over the versions and groups of the process (tls-policy.ts). The server requests a client certificate without requiring
 * one, and the handshake succeeds either way. So the listener must judge each connection (`clientOf`).
 *
 * Sessions are not resumed, because a resumed one would keep the verdict of its first handshake.
 */
export function tlsOptions({ certificate, clientRoots }: ServerCredentials): TlsOptions {
  return {
    cert: certificate.chainPem,
    key: certificate.keyPem,
    // Never omitted: without roots, Node would trust those of the public Web.
    ca: clientRoots === "" ? [] : clientRoots,
    requestCert: true,
    rejectUnauthorized: false,
    ciphers: cipherSuites,
    honorCipherOrder: true,
    ALPNProtocols: ["h2", "http/1.1"],
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
  };
}

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
