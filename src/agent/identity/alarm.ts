/**
 * How long the clock is not looked at: a machine that slept, or whose clock was set, notices within
 * this time.
 */
const longestSleepMilliseconds = 15_000;

/** Waits for an instant of the clock, or for somebody to ring. For one waiter. */
export class Alarm {
  readonly #clock: () => Date;
  #wake: () => void = () => undefined;
  #isRung = false;

  constructor(clock: () => Date) {
    this.#clock = clock;
  }

  /** Ends the wait of now, or the next one. */
  ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  /**
   * Resolves at the instant, after a ring, or when the signal aborts. A clock that is set back does not
   * make the wait longer than it was to be.
   */
  async until(instant: Date, signal: AbortSignal): Promise<void> {
    let left = this.#millisecondsTo(instant);
    while (left > 0 && !this.#isRung && !signal.aborted) {
      const slice = Math.min(left, longestSleepMilliseconds);
      await this.#sleep(slice, signal);
      left = Math.min(left - slice, this.#millisecondsTo(instant));
    }
    this.#isRung = false;
  }

  #millisecondsTo(instant: Date): number {
    return instant.getTime() - this.#clock().getTime();
  }

  #sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
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
