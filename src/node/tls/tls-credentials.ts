import { constants } from "node:crypto";
import type { TlsOptions } from "node:tls";
import type { ServingCertificate } from "./serving-certificate.ts";

/** The certificate of a TLS server, and the roots to which its clients' certificates must lead. */
export interface ServerCredentials {
  readonly certificate: ServingCertificate;
  /** PEM, one after the other; empty when no client certificate can be verified. */
  readonly clientRoots: string;
}

/** AES-GCM alone: ztunnel accepts no other, and every other client has it (docs/explanation/istio.md#ztunnel). */
const cipherSuites = [
  "TLS_AES_256_GCM_SHA384",
  "TLS_AES_128_GCM_SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
].join(":");

/**
 * TLS 1.2 and 1.3 with HTTP/2 or HTTP/1.1. The server requests a client certificate without requiring
 * one, and the handshake succeeds either way. So the listener must verify it (peer-certificate.ts).
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
    minVersion: "TLSv1.2",
    ciphers: cipherSuites,
    honorCipherOrder: true,
    ALPNProtocols: ["h2", "http/1.1"],
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
  };
}
