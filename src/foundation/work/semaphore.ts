/** Limits how many pieces of work run at once. Others wait in order, or are turned away. */
export class Semaphore {
  readonly #whole: Semaphore | undefined;
  readonly #waiting: (() => void)[] = [];
  #free: number;

  /** @param whole A larger semaphore, of which this one is a part: each piece of work counts in both. */
  constructor(limit: number, whole?: Semaphore) {
    this.#free = limit;
    this.#whole = whole;
  }

  /** Runs the work when its turn comes. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await (this.#whole ? this.#whole.run(work) : work());
    } finally {
      this.#release();
    }
  }

  /** Runs the work now. @returns `undefined` if as much runs as may. */
  tryRun<T>(work: () => Promise<T>): Promise<T> | undefined {
    if (this.#free === 0) return undefined;
    this.#free--;
    const running = this.#whole ? this.#whole.tryRun(work) : work();
    if (running) return running.finally(() => this.#release());
    this.#release();
    return undefined;
  }

  #release(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}
