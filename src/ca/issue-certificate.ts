import type { Caller } from "../authn/caller.ts";
import { CaError } from "../errors.ts";
import { parseCertificateSigningRequest } from "../pki/certificate-signing-request.ts";
import { type Issuer, issueLeaf, issueServingCertificate } from "../pki/issuer.ts";
import { toPem } from "../pki/pem.ts";
import type { SigningAuthority } from "../pki/signing-authority.ts";
import { type LeafLifetimes, leafValidity, type Validity } from "../pki/validity.ts";
import type { AuditEvent } from "./audit-event.ts";
import type { Authorities } from "./authorities.ts";
import type { AuthorityView } from "./authority-view.ts";
import type { IdentityPolicy } from "./identity-policy.ts";
import { type ServingPolicy, servingSigner } from "./serving-policy.ts";

/** What a caller asks for. Every field is the caller's own word. */
export interface CertificateRequest {
  readonly csrPem: string;
  /** Seconds; zero and less for the default. */
  readonly requestedSeconds: bigint;
  /** Istio's `ImpersonatedIdentity`; empty for none. */
  readonly impersonatedIdentity: string;
  /** Istio's `CertSigner`; empty for an X509-SVID, {@link servingSigner} for a serving certificate. */
  readonly certSigner: string;
}

/** What issuing needs; the same for every request. */
export interface Issuance {
  readonly authorities: Authorities;
  readonly identityPolicy: IdentityPolicy;
  readonly servingPolicy: ServingPolicy;
  readonly leafLifetimes: LeafLifetimes;
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
 * Issues an X509-SVID, or to a gateway a serving certificate, to an authenticated caller: the leaf, each intermediate alone, then every
 * root of the trust bundle as one element (Istio's layout), all PEM.
 *
 * @throws CaError for everything that is refused.
 */
export async function issueCertificate(
  { authorities, identityPolicy, servingPolicy, leafLifetimes }: Issuance,
  caller: Caller,
  request: CertificateRequest,
  { now, signal, audit }: RequestContext,
): Promise<string[]> {
  const spiffeId = await identityPolicy(caller, request.impersonatedIdentity, now);
  audit.spiffeId = spiffeId;
  if (spiffeId !== caller.spiffeId) audit.impersonator = caller.spiffeId;
  const dnsNames = namesFor(request.certSigner, servingPolicy(caller));
  if (dnsNames) audit.dnsNames = dnsNames;
  const publicKey = await parseCertificateSigningRequest(request.csrPem);
  const view = await authorities.at(now);
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
  return { notBefore, notAfter: schedule.retiresAt < notAfter ? schedule.retiresAt : notAfter };
}

function requireIssuer({ issuer, reasons }: AuthorityView): Issuer {
  if (issuer) return issuer;
  const why = reasons.join("; ");
  throw new CaError({ reason: "no-signing-authority", why }, why);
}

/** Nothing for an X509-SVID. Who may not serve is told that there is no such signer. */
function namesFor(
  certSigner: string,
  allowed: readonly string[] | undefined,
): readonly string[] | undefined {
  if (certSigner === "") return undefined;
  if (certSigner === servingSigner && allowed) return allowed;
  throw new CaError({ reason: "signer-unknown" }, "no signer of the requested name is configured");
}

/** Nothing is signed for a caller that is known to have hung up, or to be out of time. */
function requireAttention(signal: AbortSignal): void {
  if (!signal.aborted) return;
  throw new CaError(
    { reason: "request-abandoned" },
    "the caller is gone, or its deadline has passed",
  );
}
