import type { AuditEvent, EventLog } from "../ca/issuance/audit-event.ts";
import { DecisionCounts } from "./decisions.ts";
import type { FoundEntry } from "./found-entry.ts";
import type { FoundEntries } from "./log-search.ts";

type Outcome = AuditEvent["outcome"];

/** Calls for certificates, by their outcome. */
export type Calls = Readonly<Record<Outcome, number>>;

/** The calls for certificates, as far as they are counted. */
export interface IssuanceStatus {
  /** Since when; absent if nothing is counted here. */
  readonly since?: Date;
  /** What is counted, and what is not: one sentence. */
  readonly scope: string;
  /** A cluster without a name stands for callers that were not authenticated. */
  readonly clusters: readonly ClusterCalls[];
  /** The last day in hours, the oldest first. */
  readonly hours: readonly Calls[];
  /** Whether answers alone are counted: then nobody knows here how many calls were refused or failed. */
  readonly issuedOnly: boolean;
}

interface ClusterCalls {
  readonly cluster: string;
  readonly lastHour: Calls;
  readonly lastDay: Calls;
}

const noCalls: Calls = { issued: 0, refused: 0, failed: 0 };

/** Where nothing counts, or the log cannot be read. */
export const notCounted = (scope: string): IssuanceStatus => ({
  ...{ scope, clusters: [], hours: [], issuedOnly: false },
});

const slotMilliseconds = 300_000;
const slotsOfHour = 12;
const hours = 24;
const slots = slotsOfHour * hours;
const outcomes: readonly Outcome[] = ["issued", "refused", "failed"];

/** Clusters come from the configuration, but a configuration may change while a process runs. */
const maximumClusters = 1024;

/**
 * The calls of one process in the last day, in memory that does not grow: a ring of five-minute slots for
 * each cluster, 3.4 kB each.
 */
export class IssuanceCounts {
  /** What the rules of the policy decided in these calls. */
  readonly decisions: DecisionCounts = new DecisionCounts();
  readonly #scope: string;
  readonly #since: Date;
  readonly #rings = new Map<string, Uint32Array>();
  /** The number of the five minutes in each slot, counted from 1970. */
  readonly #numbers: Float64Array = new Float64Array(slots).fill(-1);

  /** @param scope A sentence that says what is counted. */
  constructor(scope: string, since: Date) {
    this.#scope = scope;
    this.#since = since;
  }

  count(event: Pick<AuditEvent, "outcome"> & Partial<AuditEvent>, now: Date): void {
    const { cluster = "", outcome } = event;
    this.decisions.count(event, now);
    const slot = this.#slotOf(Math.floor(now.getTime() / slotMilliseconds));
    const ring = this.#ringOf(cluster);
    const at = slot * 3 + outcomes.indexOf(outcome);
    if (ring) ring[at] = (ring[at] ?? 0) + 1;
  }

  statusAt(now: Date): IssuanceStatus {
    const current = Math.floor(now.getTime() / slotMilliseconds);
    const all = [...this.#rings];
    return {
      since: this.#since,
      scope: this.#scope,
      clusters: all
        .map(([cluster, ring]) => ({
          cluster,
          lastHour: this.#sum(ring, current, slotsOfHour - 1, slotsOfHour),
          lastDay: this.#sum(ring, current, slots - 1, slots),
        }))
        .toSorted(byCluster),
      hours: Array.from({ length: hours }, (_, hour) =>
        all
          .map(([, ring]) =>
            this.#sum(ring, current, (hours - hour) * slotsOfHour - 1, slotsOfHour),
          )
          .reduce(together, noCalls),
      ),
      issuedOnly: false,
    };
  }

  #slotOf(number: number): number {
    const slot = number % slots;
    if (this.#numbers[slot] !== number) {
      for (const ring of this.#rings.values()) ring.fill(0, slot * 3, slot * 3 + 3);
      this.#numbers[slot] = number;
    }
    return slot;
  }

  #ringOf(cluster: string): Uint32Array | undefined {
    const known = this.#rings.get(cluster);
    if (known || this.#rings.size >= maximumClusters) return known;
    const ring = new Uint32Array(slots * 3);
    this.#rings.set(cluster, ring);
    return ring;
  }

  /** @param from How many slots before the current one, which is the last. */
  #sum(ring: Uint32Array, current: number, from: number, length: number): Calls {
    const total = { ...noCalls };
    for (let number = current - from; number < current - from + length; number++) {
      const slot = ((number % slots) + slots) % slots;
      if (this.#numbers[slot] !== number) continue;
      for (const [i, outcome] of outcomes.entries()) total[outcome] += ring[slot * 3 + i] ?? 0;
    }
    return total;
  }
}

const byCluster = (a: ClusterCalls, b: ClusterCalls): number => (a.cluster < b.cluster ? -1 : 1);

function together(a: Calls, b: Calls): Calls {
  return {
    issued: a.issued + b.issued,
    refused: a.refused + b.refused,
    failed: a.failed + b.failed,
  };
}

/** Counts every call that leaves an audit event in a log. */
export function countingCalls(log: EventLog, counts: IssuanceCounts, clock: () => Date): EventLog {
  return {
    ...log,
    audit: (event) => {
      counts.count(event, clock());
      log.audit(event);
    },
  };
}

const hourMilliseconds = 3_600_000;
const dayMilliseconds = 24 * hourMilliseconds;

const refusedCallsOfWorkers =
  "Workers Logs has a line for each, and a dataset of Analytics Engine that is bound as CALL_COUNTS counts them.";

/** Counts what the newest entries of a log say of the last day, where no process counts calls. */
export function issuanceInLog({ entries, total }: FoundEntries, now: Date): IssuanceStatus {
  const dayAgo = now.getTime() - dayMilliseconds;
  const times = entries.map(({ at }) => at.getTime());
  const oldest = times.reduce((a, b) => Math.min(a, b), now.getTime());
  const isWhole = entries.length === total || oldest <= dayAgo;
  const recent = entries.filter(({ at, proof }) => at.getTime() > dayAgo && proof !== "authority");
  const since = (milliseconds: number) => (entry: FoundEntry) => entry.at.getTime() > milliseconds;
  return {
    since: new Date(isWhole ? dayAgo : oldest),
    scope: `Counted from the newest entries of the issuance log, which has no refused or failed call. ${refusedCallsOfWorkers}`,
    clusters: [...Map.groupBy(recent, ({ cluster }) => cluster)]
      .map(([cluster, logged]) => ({
        cluster,
        lastHour: issued(logged.filter(since(now.getTime() - hourMilliseconds))),
        lastDay: issued(logged),
      }))
      .toSorted(byCluster),
    hours: Array.from({ length: hours }, (_, hour) => {
      const from = dayAgo + hour * hourMilliseconds;
      const until = from + hourMilliseconds;
      return issued(recent.filter((each) => since(from)(each) && !since(until)(each)));
    }),
    issuedOnly: true,
  };
}

const issued = ({ length }: readonly FoundEntry[]): Calls => ({ ...noCalls, issued: length });
