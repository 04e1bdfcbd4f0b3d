import { constants } from "node:crypto";
import type { TLSSocket, TlsOptions } from "node:tls";
import { parseClientCertificate } from "../authn/client-certificate.ts";
import type { EventLog } from "../ca/issuance/audit-event.ts";
import { CaError } from "../foundation/errors.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { SmallFile } from "../program/files/small-file.ts";
import type { Peer } from "../transport/rpc/rpc.ts";

/** A certificate that a server presents, with its private key. */
export interface ServingCertificate {
  /** PEM: the certificate, then its intermediates. */
  readonly chainPem: string;
  readonly keyPem: string;
}

/**
 * Loads the serving certificate at `now`: the same object until it changes. It rejects while there is none, and a
 * server that has one then continues with it.
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
  /** A certificate in files that another program replaces. Each call reads the files anew. */
  read({ certificate, key }: CertificateFiles): ServingCertificateSource {
    let current: ServingCertificate | undefined;
    return async () => {
      // One after the other: where both are missing, each call names the same one.
      const chainPem = await SmallFile.read(certificate, maximumOctets);
      const keyPem = await SmallFile.read(key, maximumOctets);
      if (chainPem !== current?.chainPem || keyPem !== current.keyPem)
        current = { chainPem, keyPem };
      return current;
    };
  },
};

/** Two fifths of the remaining life, so that there is time for several attempts before half of it has passed. */
export function renewalOf(notAfter: Date, now: Date): Date {
  return new Date(now.getTime() + 0.4 * (notAfter.getTime() - now.getTime()));
}

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
 * one, and the handshake succeeds either way. So the listener must judge each certificate (`clientOf`).
 *
 * Sessions are not resumed, because a resumed one would keep the verdict of its first handshake.
 */
export function tlsOptions({ certificate, clientRoots }: ServerCredentials): TlsOptions {
  return {
    cert: certificate.chainPem,
    key: certificate.keyPem,
    // Never absent, because without roots Node would trust those of the public Web.
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

/** What the client of a connection has shown, and its certificate if that is acceptable. */
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
