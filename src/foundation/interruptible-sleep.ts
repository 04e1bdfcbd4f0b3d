import { type Pause, pause } from "./pause.ts";

/**
 * The longest time between two readings of the clock. After the machine was suspended or its clock set, a wait that is
 * over ends within this time.
 */
const longestTimerMilliseconds = 15_000;

/** Waits until a given instant, and can be interrupted. Only one `until` may be pending. */
export class InterruptibleSleep {
  readonly #clock: () => Date;
  readonly #pause: Pause;
  #waiting = new AbortController();
  #isInterrupted = false;

  constructor(clock: () => Date, pauseBy: Pause = pause) {
    this.#clock = clock;
    this.#pause = pauseBy;
  }

  /** Ends the wait under way; without one, the next ends at once. */
  interrupt(): void {
    this.#isInterrupted = true;
    this.#waiting.abort();
  }

  /**
   * Resolves at the instant, at an interruption, or when the signal aborts. A clock that is set back
   * does not prolong the wait.
   *
   * @param isOver Ends the wait, too, once it returns `true`. Called at the start and every fifteen seconds.
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
