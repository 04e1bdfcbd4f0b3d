import type { Caller } from "../authn/caller.ts";
import { CaError } from "../foundation/errors.ts";
import type { SigningAuthority } from "../pki/authority/signing-authority.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import { toPem } from "../pki/encoding/pem.ts";
import { parseWorkloadSpiffeId, type SpiffeId } from "../pki/spiffe-id.ts";
import { parseCertificateSigningRequest } from "../pki/x509/certificate-signing-request.ts";
import { type Issuer, issueLeaf, issueServingCertificate } from "../pki/x509/issuer.ts";
import { earlier, type LeafLifetimes, leafValidity, type Validity } from "../pki/x509/validity.ts";
import type { AuditEvent } from "./audit-event.ts";
import type { Authorities } from "./authorities.ts";
import type { AuthorityView } from "./authority-view.ts";
import type { IdentityPolicy } from "./identity-policy.ts";
import { servingNames, servingSigner } from "./serving-policy.ts";
import type { NamedSigner } from "./signers.ts";

/** What a caller asks for. Every field is the caller's own word. */
export interface CertificateRequest {
  readonly csrPem: string;
  /** Seconds; zero and less for the default. */
  readonly requestedSeconds: bigint;
  /** Istio's `ImpersonatedIdentity`; empty for none. */
  readonly impersonatedIdentity: string;
  /**
   * Istio's `CertSigner`; empty for an X509-SVID of the authorities that have no name,
   * {@link servingSigner} for a serving certificate, the name of a signer for an X509-SVID of its.
   */
  readonly certSigner: string;
}

/** What issuing needs; the same for every request. */
export interface Issuance {
  readonly authorities: Authorities;
  readonly identityPolicy: IdentityPolicy;
  readonly signers: ReadonlyMap<string, NamedSigner>;
  readonly leafLifetimes: LeafLifetimes;
  readonly cryptoProvider: CryptoProvider;
}

/** The circumstances of one request. */
export interface RequestContext {
  readonly now: Date;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** Filled in as the facts are established. */
  readonly audit: AuditEvent;
}

/**
 * Issues an X509-SVID, or to a gateway a serving certificate, to an authenticated caller. The answer has
 * Istio's layout, all PEM: the leaf, each intermediate alone, then every root of the trust bundle as one element.
 *
 * ARCHITECTURE.md, "CSR → PEM", follows a request through all layers; this is its sixth step.
 *
 * @throws CaError for everything that is refused.
 */
export async function issueCertificate(
  issuance: Issuance,
  caller: Caller,
  request: CertificateRequest,
  { now, signal, audit }: RequestContext,
): Promise<string[]> {
  const { identityPolicy, leafLifetimes, cryptoProvider } = issuance;
  // Usually there is nothing to wait for, and a turn of the queue of promises is not for nothing.
  const identity = identityPolicy(caller, request.impersonatedIdentity, now);
  const spiffeId = typeof identity === "string" ? identity : await identity;
  audit.spiffeId = spiffeId;
  if (spiffeId !== caller.spiffeId) audit.impersonator = caller.spiffeId;
  const { authorities, dnsNames } = signatureFor(request.certSigner, issuance, caller, spiffeId);
  if (dnsNames) audit.dnsNames = dnsNames;
  else if (request.certSigner !== "") audit.signer = request.certSigner;
  const publicKey = await parseCertificateSigningRequest(request.csrPem, cryptoProvider);
  const known = authorities.at(now);
  const view = known instanceof Promise ? await known : known;
  const issuer = requireIssuer(view);
  const { id } = issuer.authority;
  const validity = leafValidity(
    request.requestedSeconds,
    leafLifetimes,
    usefulLife(issuer.authority),
    now,
  );
  requireAttention(signal);
  const leaf = dnsNames
    ? await issueServingCertificate(issuer, { dnsNames, publicKey, validity })
    : await issueLeaf(issuer, { spiffeId, publicKey, validity });
  audit.outcome = "issued";
  audit.authority = id;
  audit.serialNumber = leaf.serialNumber;
  audit.notAfter = validity.notAfter;
  return [toPem("CERTIFICATE", leaf.der), ...view.chainPem];
}

/** An authority that was adopted may outlive the root that it needs. */
function usefulLife({ certificate, schedule }: SigningAuthority): Validity {
  const { notBefore, notAfter } = certificate.toBeSigned.validity;
  return { notBefore, notAfter: earlier(schedule.retiresAt, notAfter) };
}

function requireIssuer({ issuer, reasons }: AuthorityView): Issuer {
  if (issuer) return issuer;
  const why = reasons.join("; ");
  throw new CaError({ reason: "no-signing-authority", why }, why);
}

/** What is signed, and by whom. */
interface Signature {
  readonly authorities: Authorities;
  /** Of a serving certificate; nothing for an X509-SVID. */
  readonly dnsNames?: readonly string[];
}

/** Never another signer than the one that was asked for. Who may not serve is told that there is none. */
function signatureFor(
  certSigner: string,
  { authorities, signers }: Issuance,
  caller: Caller,
  spiffeId: SpiffeId,
): Signature {
  if (certSigner === "") return { authorities };
  if (certSigner === servingSigner) {
    const dnsNames = servingNames(caller);
    if (dnsNames) return { authorities, dnsNames };
  }
  const signer = signers.get(certSigner);
  if (!signer) {
    throw new CaError(
      { reason: "signer-unknown" },
      "no signer of the requested name is configured",
    );
  }
  const account = parseWorkloadSpiffeId(spiffeId)?.account;
  if (account && signer.mayUse(caller, account)) return signer;
  throw new CaError({ reason: "signer-denied" }, `the caller may not use the signer ${certSigner}`);
}

/** Nothing is signed for a caller that is known to have hung up, or to be out of time. */
function requireAttention(signal: AbortSignal): void {
  if (!signal.aborted) return;
  throw new CaError(
    { reason: "request-abandoned" },
    "the caller is gone, or its deadline has passed",
  );
}
