import type { AuditEvent } from "../ca/issuance/audit-event.ts";
import { createPolicy, type Effect } from "../ca/policy/policy.ts";
import type { PolicyTable, RuleTable } from "../ca/policy/rule.ts";

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

const slotMilliseconds = 300_000;
const slotsOfHour = 12;
const slots = 24 * slotsOfHour;
const fields = ["requests", "denied", "changed"] as const;

/** More than a policy has; a configuration may change while a process runs. */
const maximumRules = 400;

/** The decisions of a process in the last day, in five-minute slots: 3.4 kB for each rule. */
export class DecisionCounts {
  readonly #rings = new Map<string, Uint32Array>();
  readonly #numbers: Float64Array = new Float64Array(slots).fill(-1);

  count({ rule, effect, shadowRule, shadowEffect }: Partial<AuditEvent>, now: Date): void {
    const number = Math.floor(now.getTime() / slotMilliseconds);
    const slot = number % slots;
    if (this.#numbers[slot] !== number) {
      for (const ring of this.#rings.values()) ring.fill(0, slot * 3, slot * 3 + 3);
      this.#numbers[slot] = number;
    }
    if (rule !== undefined) this.#add(rule, effect, slot);
    if (shadowRule !== undefined) this.#add(shadowRule, shadowEffect, slot);
  }

  #add(rule: string, effect: Effect = "same", slot: number): void {
    const known = this.#rings.get(rule);
    if (!known && this.#rings.size >= maximumRules) return;
    const ring = known ?? new Uint32Array(slots * 3);
    this.#rings.set(rule, ring);
    ring[slot * 3] = (ring[slot * 3] ?? 0) + 1;
    if (effect === "same" || effect === "unknown") return;
    const at = slot * 3 + (effect === "denied" ? 1 : 2);
    ring[at] = (ring[at] ?? 0) + 1;
  }

  /** Of so many slots until now. */
  decided(rule: string, now: Date, length: number): Decided {
    const current = Math.floor(now.getTime() / slotMilliseconds);
    const total = { requests: 0, denied: 0, changed: 0 };
    const ring = this.#rings.get(rule);
    for (let number = current - length + 1; number <= current; number++) {
      const slot = number % slots;
      if (!ring || this.#numbers[slot] !== number) continue;
      for (const [i, field] of fields.entries()) total[field] += ring[slot * 3 + i] ?? 0;
    }
    return total;
  }
}

/** The rules of a CA in their order, with what they decided in the last hour and day. */
export function ruleStatuses(
  policy: PolicyTable | undefined,
  counts: DecisionCounts | undefined,
  now: Date,
): readonly RuleStatus[] {
  if (!policy) return [];
  return createPolicy(policy).rules.map(({ name, shadow, when, then }) => ({
    ...{ name, shadow, when, then },
    lastHour: counts?.decided(name, now, slotsOfHour),
    lastDay: counts?.decided(name, now, slots),
  }));
}
