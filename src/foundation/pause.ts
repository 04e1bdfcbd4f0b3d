/** Waits for this long, or until the signal aborts; either way it resolves, and leaves no timer. */
export type Pause = (milliseconds: number, signal?: AbortSignal) => Promise<void>;

/** Waits by the timers of the platform. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end);
  });
}

/**
 * Waits for work up to a time. The work goes on after that, and no timer stays behind.
 *
 * @returns What the work resolved with, or `undefined` if it is late.
 */
export async function waitFor<T>(
  work: Promise<T>,
  milliseconds: number,
  wait: Pause = pause,
): Promise<T | undefined> {
  const done = new AbortController();
  try {
    return await Promise.race([work, wait(milliseconds, done.signal).then(() => undefined)]);
  } finally {
    done.abort();
  }
}

/** Waits until work or the program ends. Rejects if the work rejects first. Nothing of the wait stays behind. */
export async function untilEnding(work: Promise<unknown>, ending: AbortSignal): Promise<void> {
  const ended = Promise.withResolvers<void>();
  const end = (): void => ended.resolve();
  ending.addEventListener("abort", end);
  if (ending.aborted) end();
  try {
    await Promise.race([work, ended.promise]);
  } finally {
    ending.removeEventListener("abort", end);
  }
}

/**
 * The longest time between two readings of the clock. A machine that was suspended, or whose clock was
 * set, wakes within this time.
 */
const longestTimerMilliseconds = 15_000;

/** A wait for an instant of the clock that can be cut short. It serves one waiter at a time. */
export class InterruptibleSleep {
  readonly #clock: () => Date;
  readonly #pause: Pause;
  #waiting = new AbortController();
  #isInterrupted = false;

  constructor(clock: () => Date, pauseBy: Pause = pause) {
    this.#clock = clock;
    this.#pause = pauseBy;
  }

  /** Ends the current wait; without one, the next. */
  interrupt(): void {
    this.#isInterrupted = true;
    this.#waiting.abort();
  }

  /**
   * Resolves at the instant, at an interruption, or when the signal aborts. A clock that is set back
   * does not prolong the wait.
   *
   * @param isOver Ends the wait as well. It is asked every fifteen seconds.
   */
  async until(
    instant: Date,
    signal: AbortSignal,
    isOver: () => boolean = () => false,
  ): Promise<void> {
    let remaining = this.#millisecondsTo(instant);
    while (remaining > 0 && !this.#isInterrupted && !signal.aborted && !isOver()) {
      const slice = Math.min(remaining, longestTimerMilliseconds);
      await this.#wait(slice, signal);
      remaining = Math.min(remaining - slice, this.#millisecondsTo(instant));
    }
    this.#isInterrupted = false;
  }

  async #wait(milliseconds: number, signal: AbortSignal): Promise<void> {
    const waiting = new AbortController();
    this.#waiting = waiting;
    const end = (): void => waiting.abort();
    signal.addEventListener("abort", end);
    await this.#pause(milliseconds, waiting.signal);
    signal.removeEventListener("abort", end);
  }

  #millisecondsTo(instant: Date): number {
    return instant.getTime() - this.#clock().getTime();
  }
}

/**
 * The end of one call's time: its signal, or a limit. It ends every wait of the call, one after the other,
 * with one timer for all of them.
 *
 * It stops no work, which reads the signal itself before each costly step.
 */
export class Deadline {
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  #giveUp: (() => void) | undefined;
  #isOver = false;

  /** @param signal Aborted when the caller has hung up or its own deadline has passed. */
  constructor(signal: AbortSignal, milliseconds: number) {
    const expire = (): void => {
      this.#isOver = true;
      this.#giveUp?.();
      this.end();
    };
    if (signal.aborted) {
      this.#isOver = true;
      return;
    }
    this.#timer = setTimeout(expire, milliseconds);
    signal.addEventListener("abort", expire);
  }

  /** Waits for the work until the deadline. @throws Whatever the work throws, and `error` at the deadline. */
  wait<T>(work: Promise<T>, error: () => Error): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#isOver) reject(error());
      this.#giveUp = () => reject(error());
      work.then(resolve, reject);
    });
  }

  /** Ends the timer. A signal may also abort after the outcome, and an error costs its stack. */
  end(): void {
    this.#giveUp = undefined;
    clearTimeout(this.#timer);
  }
}
