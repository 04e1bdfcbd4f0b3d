import {
  type Circumstances,
  decide,
  type Effect,
  effectOf,
  type Outcome,
  outcomeOf,
  type Policy,
} from "../../../ca/policy/policy.ts";
import type { LeafLifetimes } from "../../../pki/x509/validity.ts";

/** A request that was answered, or refused by a rule. */
export interface PastRequest {
  readonly circumstances: Circumstances;
  readonly made: Outcome;
  readonly isVague?: boolean | undefined;
  readonly count: number;
  /** Where the first of them is: `entry 17`, or `line 3`. */
  readonly place: string;
}

/** What a rule would have done with the requests about which it decides. */
interface RuleReport {
  /** Empty for the requests that no rule fits. */
  readonly rule: string;
  readonly isShadow: boolean;
  readonly requests: number;
  readonly effects: Readonly<Record<Effect, number>>;
  /** The identities for which something would change, the first 1,000. */
  readonly workloads: readonly string[];
  /** The first ones for which something would change. */
  readonly examples: readonly string[];
}

/** What a configuration would have done. */
export interface ReplayReport {
  readonly requests: number;
  readonly rules: readonly RuleReport[];
  /** Rules that decide about no request. */
  readonly unused: readonly string[];
  /** Requests for which a live rule, or its absence, would change something. */
  readonly changes: number;
}

/** The rules and lives of a configuration. */
export interface Replayed {
  readonly policy: Policy;
  readonly lifetimes: LeafLifetimes;
}

/** Shortens a report that a thousand identities would make long. */
const maximumWorkloads = 1000;
const maximumExamples = 3;

/** Asks the rules again about everything that was asked before. */
export function replay({ policy, lifetimes }: Replayed, past: Iterable<PastRequest>): ReplayReport {
  const tallies = new Map(policy.rules.map(({ name, shadow }) => [name, new Tally(name, shadow)]));
  const without = new Tally("", false);
  let requests = 0;
  for (const request of past) {
    requests += request.count;
    const { live, shadow } = decide(policy, request.circumstances);
    const after = limited(outcomeOf(live, request.circumstances, lifetimes), lifetimes);
    const known = !request.isVague && live.isCertain;
    const effect = known ? effectSince(after, request.made, live.rule?.then) : "unknown";
    (tallies.get(live.rule?.name ?? "") ?? without).add(request, effect);
    if (!shadow) continue;
    const would = limited(outcomeOf(shadow, request.circumstances, lifetimes), lifetimes);
    const isKnown = !request.isVague && shadow.isCertain && live.isCertain;
    const change = isKnown ? effectSince(would, after, shadow.rule?.then) : "unknown";
    tallies.get(shadow.rule?.name ?? "")?.add(request, change);
  }
  const reports = [...tallies.values(), without].map((tally) => tally.report());
  const used = reports.filter((report) => report.requests > 0);
  return {
    requests,
    rules: used,
    unused: reports
      .filter(({ rule, requests: n }) => rule !== "" && n === 0)
      .map(({ rule }) => rule),
    changes: used.reduce((sum, each) => sum + (each.isShadow ? 0 : changesIn(each)), 0),
  };
}

/** What the maximum of the configuration refuses, whatever the rules say. */
const limited = (outcome: Outcome, { maximumSeconds }: LeafLifetimes): Outcome =>
  (outcome.lifeSeconds ?? 0) > maximumSeconds && outcome.denied === undefined
    ? { ...outcome, denied: "MAX_WORKLOAD_CERT_TTL allows no such life" }
    : outcome;

/** An entry that does not say what was asked for does not tell what a rule over lives would change. */
function effectSince(after: Outcome, before: Outcome, then: object = {}): Effect {
  const effect = effectOf(after, before);
  const concernsLife = "maximum_life" in then || "default_life" in then;
  const isUnknown = after.lifeSeconds === undefined || before.lifeSeconds === undefined;
  return effect === "same" && concernsLife && isUnknown && !after.denied ? "unknown" : effect;
}

/** The effects that a person wants to know of. */
export const changing = ["denied", "allowed", "shortened", "changed"] as const;

const changesIn = ({ effects }: RuleReport): number =>
  changing.reduce((sum, effect) => sum + effects[effect], 0);

class Tally {
  readonly #rule: string;
  readonly #isShadow: boolean;
  readonly #effects = { denied: 0, allowed: 0, shortened: 0, changed: 0, same: 0, unknown: 0 };
  readonly #workloads = new Set<string>();
  readonly #examples: string[] = [];
  #requests = 0;

  constructor(rule: string, isShadow: boolean) {
    this.#rule = rule;
    this.#isShadow = isShadow;
  }

  add({ circumstances, count, place }: PastRequest, effect: Effect): void {
    this.#requests += count;
    this.#effects[effect] += count;
    if (!changing.some((each) => each === effect)) return;
    const { cluster = "?", namespace = "?", account = "?", product } = circumstances;
    const workload = `${cluster}: ${namespace}/${account}`;
    if (this.#workloads.size < maximumWorkloads) this.#workloads.add(workload);
    if (this.#examples.length >= maximumExamples) return;
    this.#examples.push(`${place}: ${workload}, ${product}, ${effect}`);
  }

  report(): RuleReport {
    return {
      rule: this.#rule,
      isShadow: this.#isShadow,
      requests: this.#requests,
      effects: this.#effects,
      workloads: [...this.#workloads],
      examples: this.#examples,
    };
  }
}
