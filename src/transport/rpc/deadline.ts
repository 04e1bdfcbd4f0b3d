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
