import { constants } from "node:crypto";
import type { TLSSocket, TlsOptions } from "node:tls";
import { parseClientCertificate } from "../authn/client-certificate.ts";
import type { EventLog } from "../ca/issuance/event-log.ts";
import { CaError } from "../foundation/errors.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { SmallFile } from "../program/files/small-file.ts";
import type { Peer } from "../transport/rpc/rpc.ts";

/** A certificate that a server presents, with its private key. */
export interface ServingCertificate {
  /** The certificate, then its intermediates, PEM. */
  readonly chainPem: string;
  readonly keyPem: string;
}

/**
 * Loads the serving certificate at `now`: the same object until it changes. If it rejects, a server keeps its last one.
 */
export type ServingCertificateSource = (now: Date) => Promise<ServingCertificate>;

const maximumOctets = 256 * 1024;

/** The files of a certificate and its key. Another program writes and replaces them. */
export interface CertificateFiles {
  readonly certificate: string;
  readonly key: string;
}

/** Reads certificates. */
export const CertificateFiles = {
  /** Creates a source from files that another program replaces. Each call reads them anew, without checking the pair. */
  read({ certificate, key }: CertificateFiles): ServingCertificateSource {
    let current: ServingCertificate | undefined;
    return async () => {
      // One after the other, so that each call names the same file if both are missing.
      const chainPem = await SmallFile.read(certificate, maximumOctets);
      const keyPem = await SmallFile.read(key, maximumOctets);
      if (chainPem !== current?.chainPem || keyPem !== current.keyPem)
        current = { chainPem, keyPem };
      return current;
    };
  },
};

/** When to renew a certificate: after two fifths of its remaining life, so that several attempts fit before half of it. */
export function renewalOf(notAfter: Date, now: Date): Date {
  return new Date(now.getTime() + 0.4 * (notAfter.getTime() - now.getTime()));
}

/** The certificate of a TLS server, and the roots to which its clients' certificates must lead. */
export interface ServerCredentials {
  readonly certificate: ServingCertificate;
  /** PEM, concatenated; empty if no client certificate can be verified. */
  readonly clientRoots: string;
}

/** AES-GCM alone: ztunnel accepts no other, and every other client supports it (docs/explanation/istio.md#clients). */
const cipherSuites = [
  "TLS_AES_256_GCM_SHA384",
  "TLS_AES_128_GCM_SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
].join(":");

/**
 * The options of a TLS server, with the versions and groups of the process (tls-policy.ts). It requests a client
 * certificate, and the handshake succeeds with any or none, so the listener must judge each by {@link clientOf}.
 *
 * Sessions are not resumed, because a resumed one would keep the verdict of its first handshake.
 */
export function tlsOptions({ certificate, clientRoots }: ServerCredentials): TlsOptions {
  return {
    cert: certificate.chainPem,
    key: certificate.keyPem,
    // Never absent, because Node would then trust public roots.
    ca: clientRoots === "" ? [] : clientRoots,
    requestCert: true,
    rejectUnauthorized: false,
    ciphers: cipherSuites,
    honorCipherOrder: true,
    ALPNProtocols: ["h2", "http/1.1"],
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
  };
}

/** What the verification of client certificates needs. */
export interface ClientVerification {
  readonly trustDomain: TrustDomain;
  readonly clock: () => Date;
  readonly log: EventLog;
}

/** What the client of a connection has shown, and its certificate if it is acceptable. */
export interface Client extends Pick<Peer, "clientCertificate"> {
  readonly shown: "nothing" | "acceptable" | "unacceptable";
}

/**
 * The client of a new connection, which may have no certificate. OpenSSL has verified the chain of a
 * certificate against the current roots, for use by a client. It must also name one workload of this
 * mesh. Any other certificate is logged and counts as none, so that the caller's token decides.
 */
export function clientOf(socket: TLSSocket, verification: ClientVerification): Client {
  const certificate = socket.getPeerX509Certificate();
  if (!certificate) return { shown: "nothing" };
  const { trustDomain, clock, log } = verification;
  const refused = (detail: string): Client => {
    const peer = socket.remoteAddress;
    log.operation({ event: "client-certificate-refused", level: "warning", detail, peer });
    return { shown: "unacceptable" };
  };
  if (!socket.authorized) return refused(`not verified: ${String(socket.authorizationError)}`);
  const clientCertificate = new Uint8Array(certificate.raw);
  try {
    parseClientCertificate(clientCertificate, trustDomain, clock());
    return { clientCertificate, shown: "acceptable" };
  } catch (error) {
    if (error instanceof CaError) return refused(error.message);
    throw error;
  }
}
