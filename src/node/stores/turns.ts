import * as z from "zod/mini";
import { jsonIn } from "../../foundation/json-members.ts";
import { type Lease, LeaseCandidate, type LeasePlace } from "../lease.ts";
import type { ObjectSpace } from "./object-space.ts";

/** The longest time for which a replica that has vanished in the middle of its turn keeps others waiting. */
export const longestTurnSeconds = 120;

/**
 * The longest duration of a write, because one that begins in a turn must end within it. A service that is busy may
 * answer its attempts for four seconds, ask for a pause of four more, and take five for the last attempt. The rest is
 * for the network.
 */
const longestWriteSeconds = 15;

/** A turn allows as much time for its work as for its last write. */
const shortestTurnSeconds = 2 * longestWriteSeconds;

/**
 * How long a turn lasts: two minutes, or down to 30 seconds with short schedules, which cannot wait that long for a
 * replica that has vanished.
 */
export const turnSecondsOf = (propagationSeconds: number): number =>
  Math.min(longestTurnSeconds, Math.max(shortestTurnSeconds, propagationSeconds));

/**
 * The fraction at the end of a turn in which no write begins, because clocks of replicas differ. The margin is longer
 * if a write may take longer than this fraction.
 */
const marginPart = 1 / 4;

const marginSecondsOf = (turnSeconds: number): number =>
  Math.max(longestWriteSeconds, turnSeconds * marginPart);

/** The work that replicas take turns at: the key of a lease. No record has such a key. */
type SharedWork = "rotation" | "push";

/** A process that takes turns with others. */
interface TurnTaker {
  /** Different for every process. */
  readonly identity: string;
  readonly clock: () => Date;
  /** How long a turn lasts: {@link turnSecondsOf}. */
  readonly turnSeconds: number;
}

/**
 * Lets the replicas of a space take turns at one kind of work, by a lease in the space, so that only one at a time
 * founds, mints and prunes. A replica that was suspended in its turn, or cannot reach the store, writes nothing once
 * the next turn may have begun.
 */
export class Turns {
  /**
   * The space for all reads and writes of this process. In a turn that took too long, it rejects writes and removals.
   */
  readonly space: ObjectSpace;
  readonly #taker: TurnTaker;
  readonly #candidate: LeaseCandidate;
  /** The time in which this replica may write, in milliseconds of Unix time; absent outside of a turn. */
  #writes: { readonly from: number; readonly until: number } | undefined;
  #isTaken = false;

  constructor(space: ObjectSpace, taker: TurnTaker, work: SharedWork = "rotation") {
    this.#taker = taker;
    this.#candidate = LeaseCandidate.create(
      leaseIn(space, work),
      taker.identity,
      taker.turnSeconds,
    );
    this.space = {
      ...space,
      list: (freshness) => space.list(this.#writes === undefined ? freshness : "now"),
      write: async (...object) => {
        this.#requireTime();
        return space.write(...object);
      },
      remove: async (key) => {
        this.#requireTime();
        return space.remove(key);
      },
    };
  }

  /**
   * Does the work unless another replica, or this one, is at work now. Meanwhile every list of the space has the
   * freshness `"now"`, so the work sees all that replicas wrote before.
   *
   * @returns Whether it was this replica's turn.
   * @throws The error of the work, or of the store: then nobody knows whose turn it is.
   */
  async take(work: () => Promise<void>): Promise<boolean> {
    // A process has one turn at a time, because the lease knows only the process, and ending one would end the other.
    if (this.#isTaken) return false;
    this.#isTaken = true;
    try {
      return await this.#takeLease(work);
    } finally {
      this.#isTaken = false;
    }
  }

  async #takeLease(work: () => Promise<void>): Promise<boolean> {
    const { clock, turnSeconds } = this.#taker;
    const from = clock().getTime();
    if (!(await this.#candidate.acquire(clock))) return false;
    this.#writes = { from, until: from + 1000 * (turnSeconds - marginSecondsOf(turnSeconds)) };
    try {
      await work();
      return true;
    } finally {
      this.#writes = undefined;
      await release(this.#candidate, clock());
    }
  }

  #requireTime(): void {
    if (!this.#writes) return;
    const { from, until } = this.#writes;
    const now = this.#taker.clock().getTime();
    // If the clock was set back, the elapsed time is unknown.
    if (from <= now && now < until) return;
    throw new Error("this replica took too long: the next one may be at work");
  }
}

/** Releases the lease. Never rejects: a lease that cannot be released expires. */
async function release(candidate: LeaseCandidate, now: Date): Promise<void> {
  await candidate.release(now).catch(() => {});
}

const leaseSchema = z.object({
  holder: z.string().check(z.maxLength(512)),
  // Bounded, because a hostile store could otherwise stop every rotation.
  seconds: z.int().check(z.minimum(0), z.maximum(longestTurnSeconds)),
  acquireTime: z.string(),
  transitions: z.int(),
});

/** A lease as JSON in an object. One that is malformed counts as free. */
function leaseIn(space: ObjectSpace, key: string): LeasePlace {
  return {
    read: async () => {
      const found = await space.read(key);
      return found && { ...parseLease(found.value), version: found.version };
    },
    write: (lease, now, version) => {
      const acquireTime = lease.acquireTime ?? now.toISOString();
      return space.write(key, JSON.stringify({ ...lease, acquireTime }), version);
    },
  };
}

function parseLease(text: string): Lease {
  const lease = leaseSchema.safeParse(jsonIn(text));
  if (lease.success) return lease.data;
  return { holder: "", seconds: 0, acquireTime: undefined, transitions: 0 };
}
