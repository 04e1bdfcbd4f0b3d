import { CaError } from "../../foundation/errors.ts";

/** The longest that one step of a call may take, whatever deadline the caller sets. */
const longestMilliseconds = 30_000;

const abandoned = (): CaError =>
  new CaError({ reason: "request-abandoned" }, "the caller has hung up, or its time is up");

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

  /** Runs work with a deadline, by default of 30 seconds. Its timer stops when the work ends. */
  static async within<T>(
    signal: AbortSignal,
    work: (deadline: Deadline) => Promise<T>,
    milliseconds: number = longestMilliseconds,
  ): Promise<T> {
    const deadline = new Deadline(signal, milliseconds);
    try {
      return await work(deadline);
    } finally {
      deadline.end();
    }
  }

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

  /**
   * Waits for the work until the deadline.
   *
   * @throws Whatever the work throws, and `error` at the deadline: by default CaError `request-abandoned`.
   */
  wait<T>(work: Promise<T>, error: () => Error = abandoned): Promise<T> {
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
