import { CaError } from "./errors.ts";
import { pause } from "./pause.ts";

/** Work that one request does for all requests that need it at the same time. */
export interface SharedWork {
  /**
   * Does the work, or waits until the work under way has succeeded or failed. A request without work of
   * its own only waits. Only the request that does the work learns of a failure.
   *
   * @throws CaError `too-many-waiting` when the room is full.
   */
  readonly join: (work?: () => Promise<void>) => Promise<void>;
}

/**
 * Shares work in the way that a platform allows: a request on Node may await the promise of another
 * request, one on Workers may not.
 *
 * @param room Bounds the number of requests that wait.
 * @param longestMilliseconds Work under way for longer counts as lost. The next request does it again.
 */
export type WorkSharing = (room: Semaphore, longestMilliseconds: number) => SharedWork;

/**
 * Waits, as one of the requests that the room has place for.
 *
 * @throws CaError `too-many-waiting`
 */
export async function waitIn(room: Semaphore, wait: () => Promise<void>): Promise<void> {
  const waiting = room.tryRun(wait);
  if (!waiting) throw new CaError({ reason: "too-many-waiting" }, "too many wait for the same");
  await waiting;
}

const firstPauseMilliseconds = 20;
const longestPauseMilliseconds = 320;

/**
 * Shares work on every platform: requests poll its end, with pauses that grow. Workers
 * cancel a request that awaits the promise of another, and may drop one in the middle of its work.
 */
export const pollForWork =
  (clock: () => Date): WorkSharing =>
  (room, longestMilliseconds) => {
    let underWay: { readonly until: number } | undefined;

    async function begin(work: () => Promise<void>): Promise<void> {
      const mine = { until: clock().getTime() + longestMilliseconds };
      underWay = mine;
      try {
        await work();
      } finally {
        if (underWay === mine) underWay = undefined;
      }
    }

    async function wait(mine: object): Promise<void> {
      let left = longestMilliseconds;
      for (let next = firstPauseMilliseconds; underWay === mine && left > 0; left -= next) {
        await pause(next);
        next = Math.min(2 * next, longestPauseMilliseconds);
      }
    }

    return {
      join: async (work) => {
        const current = underWay;
        const isUnderWay = current && clock().getTime() < current.until;
        if (isUnderWay) await waitIn(room, () => wait(current));
        else if (work) await begin(work);
      },
    };
  };

/** Limits how many pieces of work run at once. Others wait in order, or are turned away. */
export class Semaphore {
  readonly #limit: number;
  readonly #whole: Semaphore | undefined;
  readonly #waiting: (() => void)[] = [];
  #free: number;

  /**
   * @param whole A larger semaphore, of which this one is a part: each piece of work counts in both, and a part
   *   turns work away once it has as much as is left for all others.
   */
  constructor(limit: number, whole?: Semaphore) {
    this.#limit = limit;
    this.#free = limit;
    this.#whole = whole;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await (this.#whole ? this.#whole.run(work) : work());
    } finally {
      this.#release();
    }
  }

  /** Runs the work now. @returns `undefined` if as much runs as may. */
  tryRun<T>(work: () => Promise<T>): Promise<T> | undefined {
    const taken = this.#limit - this.#free;
    if (this.#free === 0 || (this.#whole && taken >= this.#whole.#free)) return undefined;
    this.#free--;
    const running = this.#whole ? this.#whole.tryRun(work) : work();
    if (running) return running.finally(() => this.#release());
    this.#release();
    return undefined;
  }

  #release(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}
