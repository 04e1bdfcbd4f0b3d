import type { OperationLog } from "../foundation/events.ts";
import { waitFor } from "../foundation/pause.ts";

/** Ends a part. @param graceMilliseconds The time that callers have for what is under way. */
type End = (graceMilliseconds: number) => Promise<void> | void;

/** Beyond the grace of callers, which is 25 s: Kubernetes kills a program after 30 s. */
const usualMilliseconds = 4_000;

/**
 * The parts that a program has opened. They end in reverse order, one after the other: each may use what was
 * opened before it until it has ended. So it is at the end of a program, and where its begin fails half-way.
 */
export class Lifetime {
  readonly #log: OperationLog;
  readonly #longestMilliseconds: number;
  readonly #parts = new AsyncDisposableStack();
  readonly #ending = new AbortController();
  #deadline = 0;
  #ended: Promise<void> | undefined;
  /** Aborts once the program is to end: it is ready no more, and what waits is answered. */
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
   * Has a part end with the program.
   *
   * @param name With its article, for a sentence of the log.
   * @param ends What belongs together, and ends at once.
   */
  endsWith(name: string, ...ends: readonly End[]): void {
    this.#parts.defer(() => this.#endPart(name, ends));
  }

  /**
   * Ends every part, also after one that throws, and goes on without one that hangs. All share the grace.
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
    if (await waitFor(ending, patienceOf(left, this.#longestMilliseconds))) return;
    const detail = `${name} did not end in time, and the rest of the program ends without it`;
    this.#log.operation({ event: "ending", level: "warning", detail });
  }
}

/**
 * How long a part may take to end: the grace that is left, and half of what is left beyond it, so that several parts
 * that hang take no longer than one budget.
 */
export const patienceOf = (graceLeft: number, beyond: number): number =>
  Math.max(0, graceLeft) + Math.max(0, beyond + Math.min(0, graceLeft)) / 2;

/** Waits for all. @throws What the first of them has thrown, once none is under way. */
async function allOf(all: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(all);
  await Promise.all(all);
}
