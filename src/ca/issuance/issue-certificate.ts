import type { Caller, SingleUse } from "../../authn/caller.ts";
import { CaError, rejectCredential } from "../../foundation/errors.ts";
import type { OpenAuthority, SigningAuthority } from "../../pki/authority/signing-authority.ts";
import type { CryptoProvider } from "../../pki/crypto-provider.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import { SignatureAlgorithm } from "../../pki/signature-algorithm.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { CertificateSigningRequest } from "../../pki/x509/certificate-signing-request.ts";
import { Intermediate } from "../../pki/x509/intermediate.ts";
import { Leaf } from "../../pki/x509/leaf/certificate-signer.ts";
import type { IdentityProof } from "../../pki/x509/leaf/identity-proof.ts";
import type { LeafContent } from "../../pki/x509/leaf/to-be-signed.ts";
import { PodKeyProof } from "../../pki/x509/pod-key-proof.ts";
import { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { earlier, type LeafLifetimes, Validity } from "../../pki/x509/validity.ts";
import type { AuthorityView } from "../authority-view.ts";
import { type DeniableRequest, type Denial, requireNotDenied } from "../denial.ts";
import type { Policy } from "../policy/policy.ts";
import type { Hindrances } from "../readiness.ts";
import type { AuditEvent } from "./audit-event.ts";
import type { Idempotency, IssuedLeaf } from "./idempotency.ts";
import { holderOf, type IdentityPolicy } from "./identity-policy.ts";
import { grantedOrder, grantedTo } from "./internal/granted.ts";
import type { IssuanceLog } from "./issuance-log.ts";
import {
  type CertificateProduct,
  orderFor,
  type Signers,
  signerNameOf,
  type TokenPolicy,
} from "./product.ts";
import { type Quotas, requireQuotas } from "./quotas.ts";

/** A caller's request. Nobody has verified anything in it. */
export interface CertificateRequest {
  readonly csrPem: string;
  /** The requested lifetime; 0 or less for the default. */
  readonly requestedSeconds: bigint;
  /** Istio's `ImpersonatedIdentity`; empty for none. */
  readonly impersonatedIdentity: string;
  /**
   * Istio's `CertSigner`: empty for an X509-SVID of the unnamed authorities, or a signer's name for one of
   * that signer. `serving` asks for a serving certificate, `intermediate` for a CA below this one.
   */
  readonly certSigner: string;
  /** The names of a serving certificate for a service, which only a signer of a cluster may request. */
  readonly dnsNames?: readonly string[];
  /** Present if the key comes without a CSR. Only a signer of a cluster may use it. */
  readonly podKeyProof?: PodKeyProof | undefined;
  /** All of Istio's metadata, in which a signer of a cluster names whom it asks for. */
  readonly metadata?: unknown;
}

/** The circumstances of one request. */
export interface RequestContext {
  readonly now: Date;
  /** Aborted when the caller no longer waits for the answer. */
  readonly signal: AbortSignal;
  /** Each step fills in what it establishes. */
  readonly audit: AuditEvent;
}

/**
 * Remembers a token until it expires, for every process that issues in this CA's name, and over a restart. Of two uses at
 * once, one is the first.
 *
 * @returns Whether this is the first use.
 * @throws CaError `too-many-waiting` where no more tokens can be remembered.
 */
export type UseToken = (token: SingleUse, now: Date) => Promise<boolean>;

/** The parts that issue certificates and tokens, the same for every request. */
export interface Issuance extends Signers, Hindrances {
  readonly identityPolicy: IdentityPolicy;
  /** The denials of the configuration, which apply whatever the store contains. */
  readonly configuredDenials: readonly Denial[];
  readonly leafLifetimes: LeafLifetimes;
  /** Absent if the configuration has no rules. */
  readonly policy?: Policy | undefined;
  readonly cryptoProvider: CryptoProvider;
  /** Absent on a platform without limits. */
  readonly quotas?: Quotas | undefined;
  /** Absent where no JWT-SVID is issued. */
  readonly tokens?: TokenPolicy | undefined;
  /** Absent where nothing is logged. */
  readonly issuanceLog?: IssuanceLog | undefined;
  /** Absent on a platform that cannot tell a token's first use. */
  readonly useToken?: UseToken | undefined;
  /** Absent on a platform that does not remember what it has issued. */
  readonly idempotency?: Idempotency | undefined;
}

/**
 * Issues an X509-SVID to an authenticated caller, or a serving certificate to a gateway or for a service. The answer has
 * Istio's layout, all PEM: the leaf, each intermediate alone, every root of the trust bundle as one element.
 *
 * ARCHITECTURE.md, "CSR → PEM", follows a request through all layers. The function is long so that the whole
 * path is read here, because the order of its steps matters.
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
  // The identity policy usually returns no promise, and an await would cost a turn of the microtask queue.
  const identity = identityPolicy(caller, request.impersonatedIdentity, now);
  const spiffeId = typeof identity === "string" ? identity : await identity;
  audit.spiffeId = spiffeId;
  if (spiffeId !== caller.spiffeId) audit.impersonator = caller.spiffeId;
  const order = orderFor(request, issuance, caller, spiffeId);
  noteProduct(audit, order.product);
  const holder = holderOf(caller, spiffeId, order.product, request);
  await requireUndenied(issuance, { caller, spiffeId, holder }, now);
  const issueOnce = issuance.idempotency?.(caller, request);
  const charge = async () =>
    issuance.quotas && requireQuotas(issuance.quotas, caller, spiffeId, now);
  if (!issueOnce) await charge();
  const publicKey = await provedKey(request, caller, cryptoProvider);
  const requestedSeconds = requestedSecondsOf(order.product, request, leafLifetimes);
  const keyType = publicKey.algorithm;
  const asked = { product: order.product, spiffeId, holder, keyType, requestedSeconds };
  const rules = { policy: issuance.policy, lifetimes: leafLifetimes };
  const granted = grantedTo(caller, asked, rules, audit);
  const { product, authorities } = grantedOrder(order, granted, issuance, audit.rule);
  noteProduct(audit, product);
  const known = authorities.at(now);
  const view = known instanceof Promise ? await known : known;
  const issuer = requireIssuer(view);
  requireFittingKey(publicKey, issuer.authority);
  const validity = Validity.ofLeaf(
    granted.seconds,
    leafLifetimes,
    usefulLife(issuer.authority, caller.provedUntil),
    now,
  );
  requireWaitingCaller(signal);
  if (caller.singleUse) await requireFirstUse(issuance.useToken, caller, now);
  const content = { spiffeId, publicKey, validity, proof: proofFor(spiffeId, caller) };
  const sign = async (): Promise<IssuedLeaf> => {
    if (issueOnce) await charge();
    return { ...(await issueProduct(issuer, product, content)), notAfter: validity.notAfter };
  };
  const record = async (leaf: IssuedLeaf, isLogged = false): Promise<IssuedLeaf> => {
    audit.authority = issuer.authority.id;
    audit.serialNumber = leaf.serialNumber;
    audit.notAfter = leaf.notAfter;
    if (issuance.issuanceLog && !isLogged) {
      const { evidence } = granted;
      const signer = signerNameOf(product);
      const issued = { caller, at: now, certificate: leaf.der, spiffeId, signer, holder, evidence };
      await issuance.issuanceLog.record(issued, { view, signal, audit });
    }
    return leaf;
  };
  const issuing = { issuer, product, spiffeId, publicKey, seconds: granted.seconds, now };
  const leaf = await (issueOnce?.({ ...issuing, sign, record }) ?? record(await sign()));
  audit.outcome = "issued";
  return [Pem.format("CERTIFICATE", leaf.der), ...view.chainPem];
}

/** Notes the product before the policy decides, so that a refusal says what was requested, and again afterwards. */
function noteProduct(audit: AuditEvent, product: CertificateProduct): void {
  const signer = signerNameOf(product);
  if (signer !== undefined) audit.signer = signer;
  if (product.kind !== "intermediate" && product.dnsNames) audit.dnsNames = product.dnsNames;
}

/**
 * Requires that no denial concerns a request. The denials of the configuration come first. All others are in the store of
 * the unnamed authorities, and apply to named signers as well.
 */
export async function requireUndenied(
  { authorities, configuredDenials }: Issuance,
  request: DeniableRequest,
  now: Date,
): Promise<void> {
  requireNotDenied(configuredDenials, request, now);
  const known = authorities.at(now);
  const { denials } = known instanceof Promise ? await known : known;
  requireNotDenied(denials, request, now);
}

/** Refuses to sign for a caller that has hung up or is out of time. @throws CaError `request-abandoned`. */
export function requireWaitingCaller(signal: AbortSignal): void {
  if (!signal.aborted) return;
  const detail = "the caller is gone, or its deadline has passed";
  throw new CaError({ reason: "request-abandoned" }, detail);
}

/**
 * Marks a single-use token as used, and refuses one that is marked already. Call it last before signing, so that a call
 * that is refused for another reason does not use up its token.
 *
 * @throws CaError `credential-rejected` (`replay`), `too-many-waiting`; `store-unreachable` without `useToken`.
 */
export async function requireFirstUse(
  useToken: UseToken | undefined,
  { singleUse }: Caller,
  now: Date,
): Promise<void> {
  if (!singleUse) return;
  if (!useToken) {
    throw new CaError({ reason: "store-unreachable" }, "nobody remembers which tokens were used");
  }
  if (await useToken(singleUse, now)) return;
  throw rejectCredential("replay", "the token was used before");
}

/**
 * The longest validity of a leaf. An adopted authority may outlive its root, so its schedule is a bound too. A renewed
 * certificate ends by the instant from which renewals are refused (`provedUntil`).
 */
function usefulLife(
  { certificate, schedule }: SigningAuthority,
  provedUntil: Date | undefined,
): Validity {
  const { notBefore, notAfter } = certificate.toBeSigned.validity;
  const useful = earlier(schedule.retiresAt, notAfter);
  return { notBefore, notAfter: provedUntil ? earlier(useful, provedUntil) : useful };
}

/**
 * Verifies that the caller has the private key: by the signature of its CSR, or by a signature over the UID of its
 * pod, as Kubernetes before 1.36 requests certificates for pods.
 */
function provedKey(
  { csrPem, podKeyProof }: CertificateRequest,
  { issuer, account }: Caller,
  cryptoProvider: CryptoProvider,
): Promise<SubjectPublicKey> {
  return podKeyProof && issuer?.clusterSigner?.(account)
    ? PodKeyProof.parseKey(csrPem, podKeyProof, cryptoProvider)
    : CertificateSigningRequest.parse(csrPem, cryptoProvider);
}

function proofFor(spiffeId: SpiffeId, { spiffeId: own, proof }: Caller): IdentityProof {
  return spiffeId === own ? proof : { ...proof, isImpersonated: true };
}

/** Refuses a post-quantum key unless the signer has the same kind: other verifiers could not read the certificate. */
function requireFittingKey(publicKey: SubjectPublicKey, authority: SigningAuthority): void {
  const { algorithm } = publicKey;
  if (SignatureAlgorithm.isPostQuantum(algorithm) && algorithm !== authority.publicKey.algorithm) {
    throw SubjectPublicKey.refuse("parameter-set");
  }
}

function requireIssuer({ issuer, reasons }: AuthorityView): OpenAuthority {
  if (issuer) return issuer;
  const why = reasons.join("; ");
  throw new CaError({ reason: "no-signing-authority", why }, why);
}

/** The requested lifetime. That of a subordinate CA is clamped to the time for which this CA can publish its root. */
function requestedSecondsOf(
  { kind }: CertificateProduct,
  { requestedSeconds }: CertificateRequest,
  { maximumSeconds }: LeafLifetimes,
): bigint {
  const maximum = BigInt(maximumSeconds);
  return kind === "intermediate" && requestedSeconds > maximum ? maximum : requestedSeconds;
}

/** Lints and signs a certificate by the profile of its product. */
function issueProduct(
  issuer: OpenAuthority,
  product: CertificateProduct,
  content: LeafContent,
): Promise<Leaf> {
  const { publicKey, validity } = content;
  switch (product.kind) {
    case "workload":
      return Leaf.issue(issuer, { ...content, dnsNames: product.dnsNames });
    case "serving":
      return Leaf.issueServing(issuer, { dnsNames: product.dnsNames, publicKey, validity });
    case "intermediate":
      return Intermediate.issue(issuer, { rights: product.rights, publicKey, validity });
  }
}
