import type { AuditEvent } from "../ca/issuance/audit-event.ts";
import { createPolicy, type Effect } from "../ca/policy/policy.ts";
import type { PolicyTable, RuleTable } from "../ca/policy/rule.ts";
import { DayCounts, type Three } from "./day-counts.ts";

/** What a rule has decided in a while, live or in shadow. */
export interface Decided {
  readonly requests: number;
  readonly denied: number;
  /** Shortened, allowed or given something else. */
  readonly changed: number;
}

/** A rule, and how often it decided; absent where nobody counts. */
export interface RuleStatus extends Pick<RuleTable, "name" | "shadow" | "when" | "then"> {
  readonly lastHour?: Decided | undefined;
  readonly lastDay?: Decided | undefined;
}

/** More rules than a policy has. */
const maximumRules = 400;

/** What rules decided in the last day. */
export class DecisionCounts {
  readonly #counts = new DayCounts(maximumRules);

  count({ rule, effect, shadowRule, shadowEffect }: Partial<AuditEvent>, at: Date): void {
    if (rule !== undefined) this.#add(rule, effect, at);
    if (shadowRule !== undefined) this.#add(shadowRule, shadowEffect, at);
  }

  #add(rule: string, effect: Effect = "same", at: Date): void {
    const isSame = effect === "same" || effect === "unknown";
    this.#counts.add(rule, isSame ? [0] : [0, effect === "denied" ? 1 : 2], at);
  }

  lastHour = (rule: string, now: Date): Decided => decided(this.#counts.hour(rule, now));
  lastDay = (rule: string, now: Date): Decided => decided(this.#counts.lastDay(rule, now));
}

const decided = ([requests, denied, changed]: Three): Decided => ({ requests, denied, changed });

/** The rules of a CA in their order, with what they decided in the last hour and day. */
export function ruleStatuses(
  policy: PolicyTable | undefined,
  counts: DecisionCounts | undefined,
  now: Date,
): readonly RuleStatus[] {
  if (!policy) return [];
  return createPolicy(policy).rules.map(({ name, shadow, when, then }) => ({
    ...{ name, shadow, when, then },
    lastHour: counts?.lastHour(name, now),
    lastDay: counts?.lastDay(name, now),
  }));
}
