import { CaError } from "./errors.ts";
import { pause } from "./pause.ts";

/** Single flight: one request does the work for all requests that need it at the same time. */
export interface SharedWork {
  /**
   * Does the work, or waits until the work under way has succeeded or failed. Without `work` it only waits, or returns at
   * once if none is under way. Only the request that does the work gets its error.
   *
   * @throws CaError `too-many-waiting` if too many requests wait already.
   */
  readonly join: (work?: () => Promise<void>) => Promise<void>;
}

/**
 * Shares work in the way that a platform allows: a request on Node may await the promise of another
 * request, one on Workers may not.
 *
 * @param capacity Bounds the number of requests that wait.
 * @param longestMilliseconds Work that takes longer is taken for lost: who waits for it returns, and the next request
 *   does it again.
 */
export type WorkSharing = (capacity: Semaphore, longestMilliseconds: number) => SharedWork;

/** How requests wait for the same work. */
export const WorkSharing = {
  /**
   * Runs `wait`.
   *
   * @throws CaError `too-many-waiting` if as many requests are waiting as `capacity` allows.
   */
  async waitIn(capacity: Semaphore, wait: () => Promise<void>): Promise<void> {
    const waiting = capacity.tryRun(wait);
    if (!waiting) throw new CaError({ reason: "too-many-waiting" }, "too many wait for the same");
    await waiting;
  },

  /**
   * Shares work on every platform: requests that wait poll, with growing pauses, whether it is done. Workers
   * cancel a request that awaits the promise of another, and may drop one in the middle of its work.
   */
  polling:
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
          if (isUnderWay) await WorkSharing.waitIn(room, () => wait(current));
          else if (work) await begin(work);
        },
      };
    },
};

const firstPauseMilliseconds = 20;
const longestPauseMilliseconds = 320;

/** Limits how many pieces of work run at once. Others wait in order, or are turned away. */
export class Semaphore {
  readonly #limit: number;
  readonly #whole: Semaphore | undefined;
  readonly #waiting: (() => void)[] = [];
  #free: number;

  /**
   * @param whole The semaphore that this one is part of: work counts in both. {@link Semaphore.tryRun} of a part refuses
   *   work once the part runs as much as `whole` has left, so that no part takes all of it. {@link Semaphore.run} waits
   *   instead.
   */
  constructor(limit: number, whole?: Semaphore) {
    this.#limit = limit;
    this.#free = limit;
    this.#whole = whole;
  }

  /** Runs the work once the limit allows it. The wait is not bounded. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await (this.#whole ? this.#whole.run(work) : work());
    } finally {
      this.#release();
    }
  }

  /** Runs the work now. @returns `undefined`, without having run it, if the limit of concurrent work is reached. */
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
