import type { Timeout } from "../../../src/delivery/push-to-cluster.ts";
import type { Pause } from "../../../src/foundation/pause.ts";
import { steadily } from "./eventually.ts";

/** A clock that a test moves, and pauses that last by it. */
export interface VirtualTime {
  readonly clock: () => Date;
  readonly pause: Pause;
  /** Creates a signal that aborts after this long. */
  readonly timeout: Timeout;
  /** Moves the clock on at once, as for a machine that slept; pauses that are over by then end. */
  readonly pass: (seconds: number) => void;
  /** Sets the clock back. Pauses last no longer by it: they are not by the clock of the wall. */
  readonly setBack: (seconds: number) => void;
  /** Passes a second, again and again, until the check passes. */
  readonly passUntil: <T>(check: () => T | Promise<T>) => Promise<T>;
  /** Passes a second, again and again, until there is an outcome. */
  readonly passWhile: <T>(waiting: Promise<T>) => Promise<T>;
  /** The lengths of the pauses that last now, in milliseconds. */
  readonly pauses: () => readonly number[];
}

/** A pause or a time-out that lasts. */
interface Timer {
  readonly milliseconds: number;
  until: number;
  readonly end: () => void;
}

export function createVirtualTime(start: Date): VirtualTime {
  let now = start.getTime();
  const pauses = new Set<Timer>();
  const timeouts = new Set<Timer>();

  const pause: Pause = (milliseconds, signal) => {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        pauses.delete(timer);
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const timer: Timer = { milliseconds, until: now + milliseconds, end };
      pauses.add(timer);
      signal?.addEventListener("abort", end);
    });
  };

  const timeout: Timeout = (milliseconds) => {
    const controller = new AbortController();
    const end = (): void => {
      timeouts.delete(timer);
      controller.abort(new DOMException("The virtual time is up.", "TimeoutError"));
    };
    const timer: Timer = { milliseconds, until: now + milliseconds, end };
    timeouts.add(timer);
    return controller.signal;
  };

  function pass(seconds: number): void {
    now += 1000 * seconds;
    for (const timer of [...pauses, ...timeouts]) if (timer.until <= now) timer.end();
  }

  function setBack(seconds: number): void {
    now -= 1000 * seconds;
    for (const timer of [...pauses, ...timeouts]) timer.until -= 1000 * seconds;
  }

  function passUntil<T>(check: () => T | Promise<T>): Promise<T> {
    return steadily(() => {
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
    timeout,
    pass,
    setBack,
    passUntil,
    passWhile,
    pauses: () => [...pauses].map(({ milliseconds }) => milliseconds),
  };
}
