import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { AuditEvent, EventLog } from "../ca/issuance/audit-event.ts";
import { type Issuance, IssuanceSchema } from "../gen/rampart/status/v1/status_pb.ts";

/** Counts the calls for certificates of the last day, in memory that does not grow. */
export interface IssuanceCounts {
  readonly count: (event: Pick<AuditEvent, "cluster" | "outcome">, now: Date) => void;
  readonly statusAt: (now: Date) => Issuance;
}

const slotMilliseconds = 300_000;
const slotsOfHour = 12;
const hours = 24;
const slots = slotsOfHour * hours;
const outcomes: readonly AuditEvent["outcome"][] = ["issued", "refused", "failed"];

/** Clusters come from the configuration, but a configuration may change while a process runs. */
const maximumClusters = 1024;

type Calls = Readonly<Record<AuditEvent["outcome"], number>>;

/**
 * Creates the counts of one process: a ring of five-minute slots for each cluster, 3.4 kB each.
 *
 * @param scope A sentence that says what is counted.
 */
export function createIssuanceCounts(scope: string, since: Date): IssuanceCounts {
  const rings = new Map<string, Uint32Array>();
  const numbers = new Float64Array(slots).fill(-1);

  function slotOf(number: number): number {
    const slot = number % slots;
    if (numbers[slot] !== number) {
      for (const ring of rings.values()) ring.fill(0, slot * 3, slot * 3 + 3);
      numbers[slot] = number;
    }
    return slot;
  }

  function ringOf(cluster: string): Uint32Array | undefined {
    const known = rings.get(cluster);
    if (known || rings.size >= maximumClusters) return known;
    const ring = new Uint32Array(slots * 3);
    rings.set(cluster, ring);
    return ring;
  }

  /** @param from How many slots before the current one, which is the last. */
  function sum(ring: Uint32Array, current: number, from: number, length: number): Calls {
    const total = { issued: 0, refused: 0, failed: 0 };
    for (let number = current - from; number < current - from + length; number++) {
      const slot = ((number % slots) + slots) % slots;
      if (numbers[slot] !== number) continue;
      for (const [i, outcome] of outcomes.entries()) total[outcome] += ring[slot * 3 + i] ?? 0;
    }
    return total;
  }

  return {
    count: ({ cluster = "", outcome }, now) => {
      const slot = slotOf(Math.floor(now.getTime() / slotMilliseconds));
      const ring = ringOf(cluster);
      const at = slot * 3 + outcomes.indexOf(outcome);
      if (ring) ring[at] = (ring[at] ?? 0) + 1;
    },
    statusAt: (now) => {
      const current = Math.floor(now.getTime() / slotMilliseconds);
      const all = [...rings];
      return create(IssuanceSchema, {
        since: timestampFromDate(since),
        scope,
        clusters: all
          .map(([cluster, ring]) => ({
            cluster,
            lastHour: sum(ring, current, slotsOfHour - 1, slotsOfHour),
            lastDay: sum(ring, current, slots - 1, slots),
          }))
          .toSorted((a, b) => (a.cluster < b.cluster ? -1 : 1)),
        hours: Array.from({ length: hours }, (_, hour) =>
          all
            .map(([, ring]) => sum(ring, current, (hours - hour) * slotsOfHour - 1, slotsOfHour))
            .reduce(together, { issued: 0, refused: 0, failed: 0 }),
        ),
      });
    },
  };
}

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
