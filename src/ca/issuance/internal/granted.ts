import { Caller } from "../../../authn/caller.ts";
import { CaError } from "../../../foundation/errors.ts";
import type { BoundAccount } from "../../../kubernetes/pods.ts";
import { SpiffeId } from "../../../pki/spiffe-id.ts";
import type { LeafLifetimes } from "../../../pki/x509/validity.ts";
import type { Circumstances } from "../../policy/circumstances.ts";
import { type Outcome, outcomeOf, Policy } from "../../policy/policy.ts";
import type { AuditEvent } from "../audit-event.ts";
import type { Evidence } from "../log-entry.ts";
import type { Order, Product, Signers } from "../product.ts";

/** A request whose key has been verified, and which the policy has not decided yet. */
interface Asked {
  readonly product: Product;
  readonly spiffeId: SpiffeId;
  /** Whom the certificate is for; `undefined` if a signer of a cluster does not say it. */
  readonly holder: BoundAccount | undefined;
  /** The requested lifetime; 0 or less for the default. */
  readonly requestedSeconds: bigint;
  /** Absent for a token. */
  readonly keyType?: Circumstances["key_type"];
}

/** The rules of a CA and the limits of a product. */
interface Rules {
  /** Absent if the configuration has no rules. */
  readonly policy: Policy | undefined;
  readonly lifetimes: LeafLifetimes;
}

/** What a caller gets. */
interface Granted extends Pick<Outcome, "dnsNames"> {
  /** The lifetime that replaces the requested one. */
  readonly seconds: bigint;
  /** The named signer of a workload's certificate. */
  readonly signer?: string | undefined;
  /** The decision, as the issuance log records it. */
  readonly evidence: Evidence;
}

/**
 * Evaluates the policy for a request of any product and caller, and notes the decision in the audit event. The policy is
 * evaluated nowhere else.
 *
 * @throws CaError `policy-denied`, `audience-denied`
 */
export function grantedTo(
  caller: Caller,
  asked: Asked,
  { policy, lifetimes }: Rules,
  audit: AuditEvent,
): Granted {
  const { product, holder, requestedSeconds } = asked;
  const requested = requestedSeconds > 0n ? Number(requestedSeconds) : 0;
  const known = policy && circumstancesOf(caller, asked, requested);
  const outcome = known && ruledBy(policy, known, lifetimes, audit);
  const seconds = outcome?.lifeSeconds ?? (requested || lifetimes.defaultSeconds);
  const isNamed = product.kind === "workload" || product.kind === "token";
  const account = isNamed ? undefined : accountOf(caller, asked);
  const { rule, shadowRule, shadowEffect } = audit;
  const evidence = {
    rule,
    policy: audit.policy,
    shadowRule,
    shadowEffect,
    requestedSeconds: requested,
    grantedSeconds: seconds === requested ? undefined : seconds,
    account: account && `${account.namespace}/${account.name}`,
    certSigner: outcome?.signer === known?.signer ? undefined : (known?.signer ?? ""),
    holder: holder ? undefined : ("unnamed" as const),
    vouched: caller.mayBeProvedBy && ("assumed" as const),
  };
  return {
    seconds: seconds === requested ? requestedSeconds : BigInt(seconds),
    signer: outcome?.signer,
    dnsNames: outcome?.dnsNames,
    evidence,
  };
}

/**
 * A workload's order as a rule changes it: the DNS names, the signer, and that signer's authorities. Every other order
 * stays as it is.
 *
 * @throws CaError `no-signing-authority` for a signer whose store only a restart opens.
 */
export function grantedOrder(
  order: Order,
  { signer, dnsNames }: Granted,
  { signers }: Signers,
  rule: string | undefined,
): Order {
  const { product } = order;
  if (product.kind !== "workload") return order;
  const named = { ...product, ...(dnsNames && { dnsNames }) };
  if (signer === undefined || signer === product.signer) return { ...order, product: named };
  const chosen = signers.get(signer);
  if (chosen) return { product: { ...named, signer }, authorities: chosen.authorities };
  const why = `the signer ${signer} of the rule ${rule} is not open before a restart`;
  throw new CaError({ reason: "no-signing-authority", why }, why);
}

/** @throws CaError `policy-denied`, `audience-denied` */
function ruledBy(
  policy: Policy,
  known: Circumstances,
  lifetimes: LeafLifetimes,
  audit: AuditEvent,
): Outcome {
  const { live, shadow } = Policy.decide(policy, known, lifetimes);
  const { outcome } = live;
  audit.policy = policy.hash;
  audit.asked = known;
  audit.rule = live.rule?.name;
  if (shadow) {
    audit.shadowRule = shadow.rule?.name;
    audit.shadowEffect = Policy.effect(shadow.outcome, outcome);
  }
  audit.effect = Policy.effect(outcome, outcomeOf(undefined, known, lifetimes));
  if (outcome.denied === undefined) return outcome;
  const { denied, isForAudience } = outcome;
  const rule = live.rule?.name ?? "";
  // The same refusal for audiences that a rule forbids, that an issuer forbids, and that do not exist, so that a
  // caller learns nothing of them.
  throw new CaError({ reason: isForAudience ? "audience-denied" : "policy-denied", rule }, denied);
}

/** What the CA has established of a request. */
function circumstancesOf(caller: Caller, asked: Asked, requested: number): Circumstances {
  const { product, holder, keyType } = asked;
  const { certificate, gateway, mayBeProvedBy, proof } = caller;
  const { namespace, name } = (gateway ?? caller).account;
  const issuer = mayBeProvedBy ? undefined : (caller.issuer ?? caller.provedBy);
  const account = accountOf(caller, asked);
  const isNodeHidden = holder === undefined || certificate !== undefined || gateway !== undefined;
  return {
    cluster: issuer?.cluster,
    issuer: issuer?.name,
    namespace: account?.namespace,
    account: account?.name,
    node: isNodeHidden ? undefined : holder.node?.name,
    caller: { namespace, account: name },
    ...Policy.hidden({
      issuer: mayBeProvedBy !== undefined,
      account: !account,
      node: isNodeHidden,
      claims: Caller.hidesTokenSubject(caller),
    }),
    provedAt: certificate && proof.provedAt,
    proof: Caller.proofKindOf(caller),
    product: product.kind,
    signer: product.kind === "workload" ? product.signer : undefined,
    requested,
    key_type: keyType,
    claims: caller.tokenSubject?.claims,
    audiences: product.kind === "token" ? product.audiences : undefined,
  };
}

/** The account that rules match: that of the identity, or of a serving certificate's holder, because it has no identity. */
function accountOf(
  caller: Caller,
  { product: { kind }, spiffeId, holder }: Asked,
): BoundAccount["account"] | undefined {
  if (kind === "serving") return holder?.account;
  if (spiffeId === caller.spiffeId) return caller.account;
  return SpiffeId.parseWorkload(spiffeId)?.account;
}
