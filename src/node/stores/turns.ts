import * as z from "zod/mini";
import { jsonIn } from "../../foundation/json.ts";
import { type Lease, LeaseCandidate, type LeasePlace } from "../lease.ts";
import type { ObjectSpace } from "./object-space.ts";

/** The longest time for which a replica that has vanished in the middle of its turn keeps others waiting. */
export const longestTurnSeconds = 120;

/**
 * A write that begins in a turn ends within it. A service that is busy may answer its attempts for four seconds,
 * ask for a pause of four more, and take five for the last attempt. The rest is for a request on its way.
 */
const longestWriteSeconds = 15;

/** A turn has as long for its work as for its last write. */
const shortestTurnSeconds = 2 * longestWriteSeconds;

/**
 * The longest turn. With short schedules it is shorter, because there are no two minutes to wait for a replica that
 * has vanished.
 */
export const turnSecondsOf = (propagationSeconds: number): number =>
  Math.min(longestTurnSeconds, Math.max(shortestTurnSeconds, propagationSeconds));

/**
 * The part at the end of a turn in which no write begins, unless a write takes longer than that: the clocks of
 * replicas run differently.
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
 * The turns of the replicas of one space at one kind of work, by a lease in it: one of them at a time founds,
 * mints and prunes. A replica that slept in its turn, or cannot reach the store, writes nothing when the next
 * one may have begun.
 */
export class Turns {
  /** The space for every read and write of this process. In a turn that has taken too long it refuses to write and to remove. */
  readonly space: ObjectSpace;
  readonly #taker: TurnTaker;
  readonly #candidate: LeaseCandidate;
  /** The milliseconds in which this replica may write. */
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
    // The lease knows a process and not its turns: the end of one would end the other.
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
    // By a clock that was set back, nobody knows how long it took.
    if (from <= now && now < until) return;
    throw new Error("this replica took too long: the next one may be at work");
  }
}

/** A lease that cannot be given up ends by itself, and the work is done. */
async function release(candidate: LeaseCandidate, now: Date): Promise<void> {
  await candidate.release(now).catch(() => {});
}

const leaseSchema = z.object({
  holder: z.string().check(z.maxLength(512)),
  // A hostile store could otherwise stop every rotation.
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
