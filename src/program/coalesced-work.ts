/** Work that is run again if something changed meanwhile: changes during a run lead to one more. */
export class CoalescedWork {
  readonly #work: () => Promise<void>;
  #isDue = false;
  #running: Promise<void> | undefined;

  /** @param work Never rejects: who asks for it may not wait. */
  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Runs the work, or has the run under way followed by another. Resolves once no run is due. */
  run(): Promise<void> {
    this.#isDue = true;
    this.#running ??= this.#runAll();
    return this.#running;
  }

  /** Resolves once no run is due; `undefined` while none is. */
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

/** Writes values by their names, one after the other. Of several for one name that wait, the latest is written. */
export class LatestWrites<T> {
  readonly #waiting = new Map<string, T>();
  readonly #writing: CoalescedWork;

  /** @param write Never rejects. */
  constructor(write: (name: string, value: T) => Promise<void>) {
    this.#writing = new CoalescedWork(async () => {
      for (const [name, value] of this.#waiting) {
        this.#waiting.delete(name);
        await write(name, value);
      }
    });
  }

  /** Resolves once nothing waits to be written any more. */
  write(name: string, value: T): Promise<void> {
    this.#waiting.set(name, value);
    return this.#writing.run();
  }

  /** Resolves once nothing waits to be written; `undefined` while nothing does. */
  get underWay(): Promise<void> | undefined {
    return this.#writing.underWay;
  }
}
