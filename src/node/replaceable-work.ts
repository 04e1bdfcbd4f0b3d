interface EndableWork {
  readonly end: () => Promise<void>;
}

/** Work that is replaced at each change of the configuration. */
export class ReplaceableWork<C, Work extends EndableWork> {
  readonly #begin: (configuration: C, before: Work | undefined) => Promise<Work>;
  #current: Work;
  #isEnded = false;

  private constructor(begin: (configuration: C, before?: Work) => Promise<Work>, current: Work) {
    this.#begin = begin;
    this.#current = current;
  }

  /** Begins the first work. @param begin Rejects if it cannot begin, and then leaves nothing running. */
  static async open<C, Work extends EndableWork>(
    first: C,
    begin: (configuration: C, before?: Work) => Promise<Work>,
  ): Promise<ReplaceableWork<C, Work>> {
    return new ReplaceableWork(begin, await begin(first));
  }

  readonly current = (): Work => this.#current;

  /** Begins another configuration's work, then ends the former. If `begin` rejects, the former stays. @returns No key. */
  readonly reconfigure = async (next: C): Promise<readonly string[]> => {
    const before = this.#current;
    const begun = await this.#begin(next, before);
    this.#current = begun;
    await before.end();
    // The program may have been closed meanwhile.
    if (this.#isEnded) await begun.end();
    return [];
  };

  readonly end = async (): Promise<void> => {
    this.#isEnded = true;
    await this.#current.end();
  };
}
