import { constants } from "node:crypto";
import type { TlsOptions } from "node:tls";
import type { ServingCertificate } from "./serving-certificate.ts";

/** What a TLS server shows, and which roots its clients' certificates must lead to. */
export interface ServerCredentials {
  readonly certificate: ServingCertificate;
  /** PEM, one after the other; empty when no client certificate can be verified. */
  readonly clientRoots: string;
}

/** AES-GCM alone: what ztunnel accepts, and what everything else has too (docs/design/istio.md#ztunnel). */
const cipherSuites = [
  "TLS_AES_256_GCM_SHA384",
  "TLS_AES_128_GCM_SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
].join(":");

/**
 * TLS 1.2 and 1.3 with HTTP/2 or HTTP/1.1. A client certificate is asked for, not demanded; the
 * handshake ends either way, and whoever accepts the connection must look at it (peer-certificate.ts).
 *
 * Sessions are not resumed, because a resumed one would be believed as it was verified once.
 */
export function tlsOptions({ certificate, clientRoots }: ServerCredentials): TlsOptions {
  return {
    cert: certificate.chainPem,
    key: certificate.keyPem,
    // Never left out: without roots, Node would believe those of the public Web.
    ca: clientRoots === "" ? [] : clientRoots,
    requestCert: true,
    rejectUnauthorized: false,
    minVersion: "TLSv1.2",
    ciphers: cipherSuites,
    honorCipherOrder: true,
    ALPNProtocols: ["h2", "http/1.1"],
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
  };
}
