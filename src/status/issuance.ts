import type { AuditEvent } from "../ca/issuance/audit-event.ts";
import type { EventLog } from "../ca/issuance/event-log.ts";
import { type Effect, Policy } from "../ca/policy/policy.ts";
import type { PolicyTable, RuleTable } from "../ca/policy/rule.ts";
import type { FoundEntries } from "./log-search.ts";

type Outcome = AuditEvent["outcome"];

/** Calls for certificates, by their outcome. */
export type Calls = Readonly<Record<Outcome, number>>;

/** The counted calls for certificates. */
export interface IssuanceStatus {
  /** When counting began; absent if nothing is counted here. */
  readonly since?: Date;
  /** What is counted, and what is not: one sentence. */
  readonly scope: string;
  /** The counts of each cluster. Under the empty name are the calls that were not authenticated. */
  readonly clusters: readonly ClusterCalls[];
  /** The last day in hours, the oldest first. */
  readonly hours: readonly Calls[];
  /**
   * Whether only issued certificates and tokens are counted, so that it is unknown how many calls were refused or
   * failed.
   */
  readonly issuedOnly: boolean;
}

interface ClusterCalls {
  readonly cluster: string;
  readonly lastHour: Calls;
  readonly lastDay: Calls;
}

/** The status if nothing is counted. @param scope Why, in one sentence. */
export const notCounted = (scope: string): IssuanceStatus => ({
  scope,
  clusters: [],
  hours: [],
  issuedOnly: false,
});

const hours = 24;

/** Bounds memory. The configuration, from which clusters come, has fewer. */
const maximumClusters = 1024;

/** How often a rule decided in a period, live or in shadow, and with what effect. */
export interface Decided {
  readonly requests: number;
  readonly denied: number;
  /** Requests whose outcome changed without a denial: shortened, allowed, or otherwise. */
  readonly changed: number;
}

/** A rule, and how often it decided; the counts are absent if no process counts. */
export interface RuleStatus extends Pick<RuleTable, "name" | "shadow" | "when" | "then"> {
  readonly lastHour?: Decided | undefined;
  readonly lastDay?: Decided | undefined;
}

/** More rules than a policy has. */
const maximumRules = 400;

/** The calls of the last day, and what the rules of the policy decided in them. */
export class IssuanceCounts {
  readonly #decisions = new SlidingDayCounts(maximumRules);
  readonly #counts = new SlidingDayCounts(maximumClusters);
  readonly #known: Pick<IssuanceStatus, "scope" | "since" | "issuedOnly">;

  /** @param scope A sentence that says what is counted. */
  constructor(scope: string, since: Date, issuedOnly = false) {
    this.#known = { scope, since, issuedOnly };
  }

  /** Counts a call, and the decisions of the rules that its event names. */
  count(event: Pick<AuditEvent, "outcome"> & Partial<AuditEvent>, at: Date): void {
    const { cluster = "", outcome } = event;
    this.#countRule(event.rule, event.effect, at);
    this.#countRule(event.shadowRule, event.shadowEffect, at);
    this.#counts.add(cluster, outcome === "issued" ? [0] : outcome === "refused" ? [1] : [2], at);
  }

  #countRule(rule: string | undefined, effect: Effect = "same", at: Date): void {
    if (rule === undefined) return;
    const isSame = effect === "same" || effect === "unknown";
    this.#decisions.add(rule, isSame ? [0] : [0, effect === "denied" ? 1 : 2], at);
  }

  /** What a rule decided in the last hour and the last day. */
  decidedBy(rule: string, now: Date): Pick<RuleStatus, "lastHour" | "lastDay"> {
    const decided = ([requests, denied, changed]: Three): Decided => ({
      requests,
      denied,
      changed,
    });
    return {
      lastHour: decided(this.#decisions.hour(rule, now)),
      lastDay: decided(this.#decisions.lastDay(rule, now)),
    };
  }

  /** The calls up to an instant. A cluster without calls in the last day is listed with zeros. */
  statusAt(now: Date): IssuanceStatus {
    const clusters = this.#counts.names().toSorted();
    return {
      ...this.#known,
      clusters: clusters.map((cluster) => ({
        cluster,
        lastHour: calls(this.#counts.hour(cluster, now)),
        lastDay: calls(this.#counts.lastDay(cluster, now)),
      })),
      hours: Array.from({ length: hours }, (_, hour) =>
        calls(
          clusters
            .map((cluster) => this.#counts.hour(cluster, now, hours - 1 - hour))
            .reduce(together, [0, 0, 0]),
        ),
      ),
    };
  }
}

/** The rules of a CA in their order, with what they decided. */
export const ruleStatuses = (
  policy: PolicyTable | undefined,
  counts: IssuanceCounts | undefined,
  now: Date,
): readonly RuleStatus[] =>
  (policy ? Policy.create(policy).rules : []).map(({ name, shadow, when, then }) => ({
    name,
    shadow,
    when,
    then,
    ...counts?.decidedBy(name, now),
  }));

const calls = ([issued, refused, failed]: Three): Calls => ({ issued, refused, failed });
const together = (a: Three, b: Three): Three => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];

/** Wraps a log so that each of its audit events is counted as a call. */
export function countingCalls(log: EventLog, counts: IssuanceCounts, clock: () => Date): EventLog {
  return {
    ...log,
    audit: (event) => {
      counts.count(event, clock());
      log.audit(event);
    },
  };
}

const dayMilliseconds = 86_400_000;

/**
 * Counts the last day by the newest entries of a log, for a CA in which no process counts calls. If the
 * entries do not go back a day, the counts begin (`since`) at the oldest one. The CA's own authorities are not counted.
 */
export function countsInLog({ entries, total }: FoundEntries, now: Date): IssuanceCounts {
  const dayAgo = now.getTime() - dayMilliseconds;
  const times = entries.map(({ at }) => at.getTime());
  const oldest = times.reduce((a, b) => Math.min(a, b), now.getTime());
  const isWhole = entries.length === total || oldest <= dayAgo;
  const scope = `Counted from the newest ${entries.length} of ${total} entries of the issuance log, which has no refused or failed call. Workers Logs has a line for each, and a dataset of Analytics Engine that is bound as CALL_COUNTS counts every call and its rule.`;
  const counts = new IssuanceCounts(scope, new Date(isWhole ? dayAgo : oldest), true);
  for (const entry of entries) {
    const { at, proof, cluster, decision } = entry;
    if (at.getTime() <= dayAgo || at > now || proof === "authority") continue;
    counts.count({ outcome: "issued", cluster, ...decision }, at);
  }
  return counts;
}

const slotMilliseconds = 300_000;
const slotsOfHour = 12;
const slots = hours * slotsOfHour;
const width = 3;

/** The counts of three kinds of events in a period. */
export type Three = readonly [number, number, number];

/**
 * Counts three kinds of events for each name over a sliding window of 24 hours, in slots of five minutes. Memory is
 * bounded: each name takes 3.4 kB, and names beyond the maximum are not counted. Nor are events
 * so old that their slot already counts a later time.
 */
export class SlidingDayCounts {
  readonly #maximum: number;
  readonly #rings = new Map<string, Uint32Array>();
  /** Which five minutes each slot has, as their number since 1970. */
  readonly #numbers: Float64Array = new Float64Array(slots).fill(-1);

  /** @param maximum The most names, which may change with the configuration while a process runs. */
  constructor(maximum: number) {
    this.#maximum = maximum;
  }

  /** The names that were ever counted. */
  names(): readonly string[] {
    return [...this.#rings.keys()];
  }

  /** Counts an event. @param fields Which of the three counts increase by one. */
  add(name: string, fields: readonly (0 | 1 | 2)[], at: Date): void {
    const number = numberAt(at);
    const slot = number % slots;
    const known = this.#numbers[slot] ?? -1;
    if (known > number || (!this.#rings.has(name) && this.#rings.size >= this.#maximum)) return;
    if (known < number) {
      for (const ring of this.#rings.values()) ring.fill(0, slot * width, (slot + 1) * width);
      this.#numbers[slot] = number;
    }
    const ring = this.#rings.get(name) ?? new Uint32Array(slots * width);
    this.#rings.set(name, ring);
    for (const field of fields) ring[slot * width + field] = (ring[slot * width + field] ?? 0) + 1;
  }

  lastDay = (name: string, now: Date): Three => this.#sum(name, numberAt(now), slots);

  /** The counts of one hour. @param hoursAgo When it ends. */
  hour = (name: string, now: Date, hoursAgo = 0): Three =>
    this.#sum(name, numberAt(now) - hoursAgo * slotsOfHour, slotsOfHour);

  #sum(name: string, last: number, length: number): Three {
    const ring = this.#rings.get(name);
    const total: [number, number, number] = [0, 0, 0];
    for (let number = Math.max(0, last - length + 1); number <= last; number++) {
      const slot = number % slots;
      if (!ring || this.#numbers[slot] !== number) continue;
      for (const field of [0, 1, 2] as const) total[field] += ring[slot * width + field] ?? 0;
    }
    return total;
  }
}

const numberAt = (instant: Date): number => Math.floor(instant.getTime() / slotMilliseconds);
