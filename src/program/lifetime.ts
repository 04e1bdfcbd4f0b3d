import type { OperationLog } from "../foundation/events.ts";
import { waitFor } from "../foundation/pause.ts";

/** Shuts a part down. @param graceMilliseconds How long requests in flight may take before they are aborted. */
type End = (graceMilliseconds: number) => Promise<void> | void;

/** The time beyond the grace of callers, which is 25 s: Kubernetes kills a program after 30 s. */
const usualMilliseconds = 4_000;

/**
 * The parts that a program has opened. They shut down in reverse order, one after the other, because each may use what
 * was opened before it until it has ended. They do so at the end of a program, and when its start fails half-way.
 */
export class Lifetime {
  readonly #log: OperationLog;
  readonly #longestMilliseconds: number;
  readonly #parts = new AsyncDisposableStack();
  readonly #ending = new AbortController();
  #deadline = 0;
  #ended: Promise<void> | undefined;
  /** Aborts when the shutdown begins: the program reports not ready, and requests that wait get a response. */
  readonly ending: AbortSignal;

  /**
   * @param asked Aborts when somebody asks the program to end.
   * @param longestMilliseconds How long all parts may take to end, beyond the grace of callers.
   */
  constructor(log: OperationLog, asked?: AbortSignal, longestMilliseconds = usualMilliseconds) {
    this.#log = log;
    this.#longestMilliseconds = longestMilliseconds;
    const own = this.#ending.signal;
    this.ending = asked ? AbortSignal.any([asked, own]) : own;
  }

  /**
   * Registers a part to be shut down with the program. @throws ReferenceError once {@link end} has been called.
   * @param name With its article, for a sentence of the log.
   * @param ends Run at the same time, when the part's turn comes.
   */
  endsWith(name: string, ...ends: readonly End[]): void {
    this.#parts.defer(() => this.#endPart(name, ends));
  }

  /**
   * Shuts down every part, even after one has thrown, and gives up on one that hangs. All share the grace. A second
   * call waits for the first and changes no grace.
   *
   * @throws What a part has thrown, in a SuppressedError if several have.
   */
  end(graceMilliseconds: number): Promise<void> {
    if (!this.#ended) {
      this.#ending.abort();
      this.#deadline = performance.now() + graceMilliseconds;
      this.#ended = this.#parts.disposeAsync();
    }
    return this.#ended;
  }

  async #endPart(name: string, ends: readonly End[]): Promise<void> {
    const left = this.#deadline - performance.now();
    const grace = Math.max(0, left);
    const ending = allOf(ends.map(async (end) => end(grace))).then(() => true);
    if (await waitFor(ending, timeoutOf(left, this.#longestMilliseconds))) return;
    const detail = `${name} did not end in time, and the rest of the program ends without it`;
    this.#log.operation({ event: "ending", level: "warning", detail });
  }
}

/**
 * How long a part may take to end, in milliseconds: the grace left, and half of the time left beyond it, so that all
 * parts that hang share one budget. A negative `graceLeft` is subtracted from `beyond`.
 */
export const timeoutOf = (graceLeft: number, beyond: number): number =>
  Math.max(0, graceLeft) + Math.max(0, beyond + Math.min(0, graceLeft)) / 2;

/** Waits for all. @throws What the first of them has thrown, once none is under way. */
async function allOf(all: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(all);
  await Promise.all(all);
}
