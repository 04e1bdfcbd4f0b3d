import type { Caller } from "../../authn/caller.ts";
import { CaError } from "../../foundation/errors.ts";
import type { BoundAccount } from "../../kubernetes/pods.ts";
import { parseWorkloadSpiffeId, type SpiffeId } from "../../pki/spiffe-id.ts";
import type { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import type { LeafLifetimes } from "../../pki/x509/validity.ts";
import {
  type Circumstances,
  type Decision,
  decide,
  effectOf,
  type Outcome,
  outcomeOf,
  type Policy,
} from "../policy/policy.ts";
import type { AuditEvent } from "./audit-event.ts";
import { type Evidence, proofKindOf } from "./log-entry.ts";
import type { Order, Product, Signers, TokenProduct } from "./product.ts";

/** For whom a request is, and for how long. */
interface Sought {
  readonly spiffeId: SpiffeId;
  /** Whom it is for; `undefined` where a signer of a cluster does not say so. */
  readonly holder: BoundAccount | undefined;
  /** Zero and less for the default. */
  readonly requestedSeconds: bigint;
}

/** A request with a proved key, before the policy is asked. */
interface Asked extends Sought {
  readonly order: Order;
  readonly publicKey: SubjectPublicKey;
}

/** What a caller gets. */
interface Granted extends Order {
  readonly requestedSeconds: bigint;
  /** For the log. */
  readonly evidence: Evidence;
}

/** The rules and limits of a CA that decide what a caller gets. */
interface Rules extends Signers {
  /** Absent where there are no rules. */
  readonly policy?: Policy | undefined;
  readonly leafLifetimes: LeafLifetimes;
}

/**
 * Asks the policy about a request: the one place where it is asked, for every product and every caller.
 *
 * @throws CaError `policy-denied`, `no-signing-authority`
 */
export function grantedTo(
  caller: Caller,
  asked: Asked,
  { policy, leafLifetimes, signers }: Rules,
  audit: AuditEvent,
): Granted {
  const { order, requestedSeconds } = asked;
  if (!policy) {
    const usual = requestedSeconds > 0n ? Number(requestedSeconds) : leafLifetimes.defaultSeconds;
    const evidence = evidenceOf(caller, order.product, asked, usual);
    return { ...order, requestedSeconds, evidence };
  }
  const { product } = order;
  const keyType = asked.publicKey.algorithm;
  const circumstances = circumstancesOf(caller, { ...asked, product, keyType });
  const outcome = ruledBy(policy, circumstances, leafLifetimes, audit);
  const { lifeSeconds: seconds = 0, signer, dnsNames } = outcome;
  const evidence = { ...evidenceOf(caller, product, asked, seconds), ...notedIn(audit) };
  const granted = { ...order, requestedSeconds: BigInt(seconds), evidence };
  if (product.kind !== "workload") return granted;
  const named = { ...product, ...(dnsNames && { dnsNames }) };
  if (signer === undefined || signer === product.signer) return { ...granted, product: named };
  const chosen = signers.get(signer);
  if (!chosen) {
    const why = `the signer ${signer} of the rule ${audit.rule} is not open before a restart`;
    throw new CaError({ reason: "no-signing-authority", why }, why);
  }
  return {
    ...granted,
    product: { ...named, signer },
    authorities: chosen.authorities,
    evidence: { ...evidence, certSigner: product.signer ?? "" },
  };
}

/** A request for a token, before the policy is asked. */
interface AskedToken extends Sought {
  readonly product: TokenProduct;
}

/** The life of a token that a caller gets. */
interface GrantedToken {
  readonly seconds: number;
  /** For the log. */
  readonly evidence: Evidence;
}

/**
 * Asks the policy about a request for a token.
 *
 * @throws CaError `policy-denied`, `audience-denied`
 */
export function tokenGrantedTo(
  caller: Caller,
  asked: AskedToken,
  {
    policy,
    lifetimes,
  }: { readonly policy?: Policy | undefined; readonly lifetimes: LeafLifetimes },
  audit: AuditEvent,
): GrantedToken {
  const { product, requestedSeconds } = asked;
  let seconds = requestedSeconds > 0n ? Number(requestedSeconds) : lifetimes.defaultSeconds;
  if (policy) {
    const circumstances = circumstancesOf(caller, { ...asked, keyType: undefined });
    seconds = ruledBy(policy, circumstances, lifetimes, audit).lifeSeconds ?? seconds;
  }
  const evidence = { ...evidenceOf(caller, product, asked, seconds), ...notedIn(audit) };
  return { seconds, evidence };
}

/** @throws CaError `policy-denied`, `audience-denied` */
function ruledBy(
  policy: Policy,
  circumstances: Circumstances,
  lifetimes: LeafLifetimes,
  audit: AuditEvent,
): Outcome {
  const { live, shadow } = decide(policy, circumstances);
  const outcome = outcomeOf(live, circumstances, lifetimes);
  audit.policy = policy.hash;
  audit.asked = circumstances;
  audit.rule = live.rule?.name;
  if (shadow) noteShadow(audit, shadow, outcomeOf(shadow, circumstances, lifetimes), outcome);
  audit.effect = effectOf(outcome, outcomeOf(ruleless, circumstances, lifetimes));
  if (outcome.denied === undefined) return outcome;
  const { denied, isForAudience } = outcome;
  const rule = live.rule?.name ?? "";
  // One answer for audiences that a rule forbids, that an issuer forbids, and that nobody knows.
  throw new CaError({ reason: isForAudience ? "audience-denied" : "policy-denied", rule }, denied);
}

const notedIn = ({ policy, rule, shadowRule, shadowEffect }: AuditEvent): Evidence => ({
  ...{ policy, rule, shadowRule, shadowEffect },
});

/**
 * What a replay cannot read from the rest of an entry.
 *
 * @param seconds The life for a caller that asks for none, or by a rule.
 */
function evidenceOf(
  caller: Caller,
  product: Product,
  { spiffeId, holder, requestedSeconds }: Sought,
  seconds: number,
): Evidence {
  const isNamed = product.kind === "workload" || product.kind === "token";
  const account = isNamed ? undefined : accountOf(caller, product, spiffeId, holder);
  const requested = requestedSeconds > 0n ? Number(requestedSeconds) : 0;
  return {
    requestedSeconds: requested,
    grantedSeconds: seconds === requested ? undefined : seconds,
    account: account && `${account.namespace}/${account.name}`,
    holder: holder ? undefined : "unnamed",
  };
}

const ruleless: Decision = { rule: undefined, isCertain: true };

function noteShadow(audit: AuditEvent, { rule }: Decision, outcome: Outcome, live: Outcome): void {
  audit.shadowRule = rule?.name;
  audit.shadowEffect = effectOf(outcome, live);
}

interface AskedAnything extends Sought {
  readonly product: Product;
  readonly keyType: Circumstances["keyType"];
}

/** What the CA has established of a request. */
function circumstancesOf(
  caller: Caller,
  { product, spiffeId, holder, keyType, requestedSeconds }: AskedAnything,
): Circumstances {
  const { account: asker } = caller.gateway ?? caller;
  const issuer = caller.issuer ?? caller.provedBy;
  const account = accountOf(caller, product, spiffeId, holder);
  return {
    cluster: issuer?.cluster,
    issuer: issuer?.name,
    namespace: account?.namespace,
    account: account?.name,
    callerNamespace: asker.namespace,
    callerAccount: asker.name,
    node: holder?.node?.name,
    nodeHidden: nodeHiddenFrom(caller, holder),
    proof: proofKindOf(caller),
    signer: product.kind === "workload" ? product.signer : undefined,
    product: product.kind,
    requestedSeconds: requestedSeconds > 0n ? Number(requestedSeconds) : 0,
    keyType,
    audiences: product.kind === "token" ? product.audiences : undefined,
  };
}

/** A serving certificate has no identity, so whom it is for counts. */
function accountOf(
  caller: Caller,
  { kind }: Product,
  spiffeId: SpiffeId,
  holder: BoundAccount | undefined,
): BoundAccount["account"] | undefined {
  if (kind === "serving" && holder) return holder.account;
  if (spiffeId === caller.spiffeId) return caller.account;
  return parseWorkloadSpiffeId(spiffeId)?.account;
}

/** A certificate does not show the node of its holder, nor does a gateway that forwards names alone. */
function nodeHiddenFrom(
  { certificate, proof, gateway }: Caller,
  holder: BoundAccount | undefined,
): Circumstances["nodeHidden"] {
  if (certificate) return proof.provedAt;
  return holder === undefined || gateway ? "always" : undefined;
}
