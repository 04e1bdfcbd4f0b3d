/**
 * The end of one call's time: when its signal aborts, or at a limit. One timer serves all waits of the call; only one
 * wait may be pending at a time.
 *
 * It stops no work: the work itself reads the signal before each costly step.
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

  /** Stops the timer. If the signal aborts later, no error is created, which saves the cost of its stack trace. */
  end(): void {
    this.#giveUp = undefined;
    clearTimeout(this.#timer);
  }
}
