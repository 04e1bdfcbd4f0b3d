/**
 * The longest time between two readings of the clock. A machine that was suspended, or whose clock was
 * set, wakes within this time.
 */
const longestTimerMilliseconds = 15_000;

/** A wait for an instant of the clock that can be cut short. It serves one waiter at a time. */
export class InterruptibleSleep {
  readonly #clock: () => Date;
  #wake: () => void = () => undefined;
  #isInterrupted = false;

  constructor(clock: () => Date) {
    this.#clock = clock;
  }

  /** Ends the current wait; without one, the next. */
  interrupt(): void {
    this.#isInterrupted = true;
    this.#wake();
  }

  /**
   * Resolves at the instant, at an interruption, or when the signal aborts. A clock that is set back
   * does not prolong the wait.
   */
  async until(instant: Date, signal: AbortSignal): Promise<void> {
    let remaining = this.#millisecondsTo(instant);
    while (remaining > 0 && !this.#isInterrupted && !signal.aborted) {
      const slice = Math.min(remaining, longestTimerMilliseconds);
      await this.#setTimer(slice, signal);
      remaining = Math.min(remaining - slice, this.#millisecondsTo(instant));
    }
    this.#isInterrupted = false;
  }

  #millisecondsTo(instant: Date): number {
    return instant.getTime() - this.#clock().getTime();
  }

  #setTimer(milliseconds: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, milliseconds);
      signal.addEventListener("abort", end);
      this.#wake = end;
    });
  }
}
