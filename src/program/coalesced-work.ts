/** Runs work one run at a time: any number of requests during a run lead to one more run. */
export class CoalescedWork {
  readonly #work: () => Promise<void>;
  #isDue = false;
  #running: Promise<void> | undefined;

  /** @param work Must not reject, because a caller of {@link run} need not await it. */
  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Runs the work now, or once more after the run under way. Resolves once no run is due. */
  run(): Promise<void> {
    this.#isDue = true;
    this.#running ??= this.#runAll();
    return this.#running;
  }

  /** Resolves once no run is due; `undefined` if none is under way. */
  get underWay(): Promise<void> | undefined {
    return this.#running;
  }

  async #runAll(): Promise<void> {
    while (this.#isDue) {
      this.#isDue = false;
      await this.#work();
    }
    this.#running = undefined;
  }
}

/** Writes named values one after the other. Of several values that wait under one name, only the latest is written. */
export class LatestWrites<T> {
  readonly #waiting = new Map<string, T>();
  readonly #writing: CoalescedWork;

  /** @param write Must not reject. */
  constructor(write: (name: string, value: T) => Promise<void>) {
    this.#writing = new CoalescedWork(async () => {
      for (const [name, value] of this.#waiting) {
        this.#waiting.delete(name);
        await write(name, value);
      }
    });
  }

  /** Resolves once this value and all others are written. */
  write(name: string, value: T): Promise<void> {
    this.#waiting.set(name, value);
    return this.#writing.run();
  }

  /** Resolves once everything is written; `undefined` if no write is under way. */
  get underWay(): Promise<void> | undefined {
    return this.#writing.underWay;
  }
}
