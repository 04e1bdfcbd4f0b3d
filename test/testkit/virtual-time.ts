import type { Pause } from "../../src/foundation/pause.ts";
import { eventually } from "./eventually.ts";

/** A clock that a test moves, and pauses that last by it. */
export interface VirtualTime {
  readonly clock: () => Date;
  readonly pause: Pause;
  /** Moves the clock on at once, as for a machine that slept; pauses that are over by then end. */
  readonly pass: (seconds: number) => void;
  /** Passes a second, again and again, until the check passes. */
  readonly passUntil: <T>(check: () => T | Promise<T>) => Promise<T>;
  /** Passes a second, again and again, until there is an outcome. */
  readonly passWhile: <T>(waiting: Promise<T>) => Promise<T>;
  /** The lengths of the pauses that last now, in milliseconds. */
  readonly pauses: () => readonly number[];
}

/** A pause that lasts. */
interface Waiter {
  readonly milliseconds: number;
  readonly until: number;
  readonly end: () => void;
}

export function createVirtualTime(start: Date): VirtualTime {
  let now = start.getTime();
  const waiters = new Set<Waiter>();

  const pause: Pause = (milliseconds, signal) => {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        waiters.delete(waiter);
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const waiter: Waiter = { milliseconds, until: now + milliseconds, end };
      waiters.add(waiter);
      signal?.addEventListener("abort", end);
    });
  };

  function pass(seconds: number): void {
    now += 1000 * seconds;
    for (const waiter of [...waiters]) if (waiter.until <= now) waiter.end();
  }

  function passUntil<T>(check: () => T | Promise<T>): Promise<T> {
    return eventually(() => {
      pass(1);
      return check();
    });
  }

  async function passWhile<T>(waiting: Promise<T>): Promise<T> {
    let isSettled = false;
    const settled = waiting.finally(() => {
      isSettled = true;
    });
    settled.catch(() => {});
    await passUntil(() => {
      if (!isSettled) throw new Error("there is no outcome yet");
    });
    return settled;
  }

  return {
    clock: () => new Date(now),
    pause,
    pass,
    passUntil,
    passWhile,
    pauses: () => [...waiters].map(({ milliseconds }) => milliseconds),
  };
}
