import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type Circumstances,
  type Decision,
  decide,
  type Effect,
  effectOf,
  type Outcome,
  outcomeOf,
  type Policy,
} from "../../../ca/policy/policy.ts";
import type { Product } from "../../../ca/policy/rule.ts";
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
  readonly lifetimesOf: (product: Product) => LeafLifetimes;
}

/** Shortens a report that a thousand identities would make long. */
const maximumWorkloads = 1000;
const maximumExamples = 3;

/** Asks the rules again about everything that was asked before. */
export async function replay(rules: Replayed, past: Iterable<PastRequest>): Promise<ReplayReport> {
  const { policy } = rules;
  const tallies = new Map(policy.rules.map(({ name, shadow }) => [name, new Tally(name, shadow)]));
  const without = new Tally("", false);
  let requests = 0;
  let asked = 0;
  for (const request of past) {
    if (asked++ % 1000 === 0) await nextTurn();
    requests += request.count;
    const { live, after, shadow, would } = ruled(rules, request.circumstances);
    const isKnown = isToldBy(request, live);
    const effect = isKnown ? effectSince(after, request.made, live.rule?.then) : "unknown";
    (tallies.get(live.rule?.name ?? "") ?? without).add(request, effect);
    if (!shadow || !would) continue;
    const isShadowKnown = isKnown && isToldBy(request, shadow);
    const change = isShadowKnown ? effectSince(would, after, shadow.rule?.then) : "unknown";
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

/** Whether a request says all that a rule asks for. Where it shows no node, the CA refuses for certain. */
const isToldBy = ({ isVague, circumstances }: PastRequest, { rule, isCertain }: Decision) =>
  !isVague &&
  (isCertain ||
    circumstances.requestedSeconds !== undefined ||
    rule?.when.requested_over === undefined);

/** What rules decide about a request, and what comes of it. */
export interface Ruled {
  readonly live: Decision;
  readonly after: Outcome;
  readonly shadow: Decision | undefined;
  /** What would come of it by the rule in shadow. */
  readonly would: Outcome | undefined;
}

/** Asks the rules about a request. The maximum of the configuration refuses whatever they say. */
export function ruled({ policy, lifetimesOf }: Replayed, asked: Circumstances): Ruled {
  const { product, requestedSeconds: requested } = asked;
  const lifetimes = lifetimesOf(product);
  const { maximumSeconds } = lifetimes;
  const isLong = requested !== undefined && requested > maximumSeconds;
  // A CA below asks for as long as it likes.
  const isCut = isLong && product === "intermediate";
  const known = isCut ? { ...asked, requestedSeconds: maximumSeconds } : asked;
  const { live, shadow } = decide(policy, known);
  const outcome = (decision: Decision): Outcome => {
    const found = outcomeOf(decision, known, lifetimes);
    return isLong && !isCut ? { denied: "nobody may ask for so long a life", ...found } : found;
  };
  return { live, after: outcome(live), shadow, would: shadow && outcome(shadow) };
}

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
