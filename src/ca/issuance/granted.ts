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
import type { Order, Product, Signers } from "./product.ts";

/** A request with a proved key, before the policy is asked. */
interface Asked {
  readonly order: Order;
  readonly spiffeId: SpiffeId;
  /** Whom it is for; `undefined` where a signer of a cluster does not say so. */
  readonly holder: BoundAccount | undefined;
  readonly publicKey: SubjectPublicKey;
  /** Zero and less for the default. */
  readonly requestedSeconds: bigint;
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
    const evidence = evidenceOf(caller, asked, usual);
    return { ...order, requestedSeconds, evidence };
  }
  const circumstances = circumstancesOf(caller, asked);
  const { live, shadow } = decide(policy, circumstances);
  const outcome = outcomeOf(live, circumstances, leafLifetimes);
  audit.policy = policy.hash;
  audit.asked = circumstances;
  audit.rule = live.rule?.name;
  if (shadow) noteShadow(audit, shadow, outcomeOf(shadow, circumstances, leafLifetimes), outcome);
  audit.effect = effectOf(outcome, outcomeOf(ruleless, circumstances, leafLifetimes));
  if (outcome.denied !== undefined) {
    const rule = live.rule?.name ?? "";
    throw new CaError({ reason: "policy-denied", rule }, outcome.denied);
  }
  const { product } = order;
  const { policy: hash, rule, shadowRule, shadowEffect } = audit;
  const seconds = outcome.lifeSeconds ?? 0;
  const noted = { policy: hash, rule, shadowRule, shadowEffect };
  const evidence = { ...evidenceOf(caller, asked, seconds), ...noted };
  const granted = { ...order, requestedSeconds: BigInt(seconds), evidence };
  const { signer, dnsNames } = outcome;
  if (product.kind !== "workload") return granted;
  const named = { ...product, ...(dnsNames && { dnsNames }) };
  if (signer === undefined || signer === product.signer) return { ...granted, product: named };
  const chosen = signers.get(signer);
  if (!chosen) {
    const why = `the signer ${signer} of the rule ${rule} is not open before a restart`;
    throw new CaError({ reason: "no-signing-authority", why }, why);
  }
  return {
    ...granted,
    product: { ...named, signer },
    authorities: chosen.authorities,
    evidence: { ...evidence, certSigner: product.signer ?? "" },
  };
}

/**
 * What a replay cannot read from the rest of an entry.
 *
 * @param seconds The life for a caller that asks for none, or by a rule.
 */
function evidenceOf(
  caller: Caller,
  { order, spiffeId, holder, requestedSeconds }: Asked,
  seconds: number,
): Evidence {
  const { product } = order;
  const account =
    product.kind === "workload" ? undefined : accountOf(caller, product, spiffeId, holder);
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

/** What the CA has established of a request. */
function circumstancesOf(
  caller: Caller,
  { order: { product }, spiffeId, holder, publicKey, requestedSeconds }: Asked,
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
    keyType: publicKey.algorithm,
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
