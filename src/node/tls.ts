import { constants } from "node:crypto";
import type { TLSSocket, TlsOptions } from "node:tls";
import { parseClientCertificate } from "../authn/client-certificate.ts";
import type { Authorities } from "../ca/authorities.ts";
import type { AuthorityView } from "../ca/authority-view.ts";
import type { EventLog } from "../ca/issuance/audit-event.ts";
import { type IssuanceLog, recordIssuance } from "../ca/issuance/issuance-log.ts";
import { CaError } from "../foundation/errors.ts";
import type { OpenAuthority } from "../pki/authority/signing-authority.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { toPem } from "../pki/encoding/pem.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { issueServingCertificate } from "../pki/x509/leaf/certificate-signer.ts";
import { parseSubjectPublicKey } from "../pki/x509/subject-public-key.ts";
import {
  addSeconds,
  type LeafLifetimes,
  leafValidity,
  type Validity,
} from "../pki/x509/validity.ts";
import { readSmallFile } from "../program/files/small-file.ts";
import type { Peer } from "../transport/rpc/rpc.ts";

export interface ServingCertificate {
  /** PEM: the certificate, then its intermediates. */
  readonly chainPem: string;
  readonly keyPem: string;
}

/**
 * The certificate to serve with at `now`: the same object until it changes.
 *
 * Rejects when there is none. A server that has one then continues with it.
 */
export type ServingCertificateSource = (now: Date) => Promise<ServingCertificate>;

const maximumOctets = 256 * 1024;

/** The files of a certificate and its key. Another program writes and replaces them. */
export interface CertificateFiles {
  readonly certificate: string;
  readonly key: string;
}

/** A certificate in files that another program replaces. Each call reads the files anew. */
export function certificateInFiles({
  certificate,
  key,
}: CertificateFiles): ServingCertificateSource {
  let current: ServingCertificate | undefined;
  return async () => {
    // One after the other: where both are missing, each call names the same one.
    const chainPem = await readSmallFile(certificate, maximumOctets);
    const keyPem = await readSmallFile(key, maximumOctets);
    if (chainPem !== current?.chainPem || keyPem !== current.keyPem) current = { chainPem, keyPem };
    return current;
  };
}

/** The names of a serving certificate, and the authorities that sign it. */
interface OwnCertificate {
  readonly dnsNames: readonly string[];
  readonly authorities: Authorities;
  readonly leafLifetimes: LeafLifetimes;
  /** Absent where nothing is logged. */
  readonly issuanceLog?: IssuanceLog | undefined;
}

/** A caller that does not wait for the next bundle asks for it as often. */
const learningSeconds = 300;

/**
 * A serving certificate of the authority that signs, with a fresh key. It is renewed before half of its life is over,
 * and when another authority signs: at once if the bundle has lost the root, else after a while. A taint publishes a root
 * that signs at once, and callers learn of it by a connection that they accept.
 */
export function ownCertificate(own: OwnCertificate): ServingCertificateSource {
  let current: ServingCertificate | undefined;
  let issuerId = "";
  let renewAt = new Date(0);
  let followedAt: Date | undefined;
  return async (now) => {
    const view = await own.authorities.at(now);
    const { issuer, chainPem, reasons } = view;
    if (!issuer) {
      const why = reasons.join("; ");
      throw new CaError({ reason: "no-signing-authority", why }, why);
    }
    if (current && now < renewAt) {
      if (issuer.authority.id === issuerId) return current;
      followedAt ??= now;
      const isTrusted = view.crlIssuers.some(({ authority }) => authority.id === issuerId);
      if (isTrusted && now < addSeconds(followedAt, learningSeconds)) return current;
    }
    const validity = leafValidity(
      0n,
      own.leafLifetimes,
      issuer.authority.certificate.toBeSigned.validity,
      now,
    );
    const issued = await issue(own.dnsNames, issuer, validity, chainPem.slice(0, -1));
    if (own.issuanceLog) await recordOwn(own.issuanceLog, issued.certificate, view, now);
    current = issued;
    issuerId = issuer.authority.id;
    followedAt = undefined;
    renewAt = renewalOf(validity.notAfter, now);
    return current;
  };
}

/** After two fifths of the remaining life: before half, with time for several attempts. */
export function renewalOf(notAfter: Date, now: Date): Date {
  return new Date(now.getTime() + 0.4 * (notAfter.getTime() - now.getTime()));
}

/** A certificate that is in use but not in the log would look like a thief's. */
async function recordOwn(
  log: IssuanceLog,
  certificate: Bytes,
  view: AuthorityView,
  now: Date,
): Promise<void> {
  const entry = { kind: "certificate", certificate, at: now.toISOString(), proof: "own" } as const;
  await recordIssuance(log, entry, { view, signal: new AbortController().signal, audit: {} });
}

async function issue(
  dnsNames: readonly string[],
  issuer: OpenAuthority,
  validity: Validity,
  intermediates: readonly string[],
): Promise<ServingCertificate & { readonly certificate: Bytes }> {
  const { subtle } = crypto;
  const keys = await subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
    "sign",
    "verify",
  ]);
  const publicKey = parseSubjectPublicKey(
    new Uint8Array(await subtle.exportKey("spki", keys.publicKey)),
  );
  const { der } = await issueServingCertificate(issuer, { dnsNames, publicKey, validity });
  const privateKey = new Uint8Array(await subtle.exportKey("pkcs8", keys.privateKey));
  return {
    certificate: der,
    chainPem: [toPem("CERTIFICATE", der), ...intermediates].join(""),
    keyPem: toPem("PRIVATE KEY", privateKey),
  };
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
