/** Shares one run of some work, and its result, among all who ask for it meanwhile. The result may serve later callers, too. */
export class SingleFlight<T> {
  #run: Promise<T> | undefined;
  #done: { readonly result: T } | undefined;

  /** The run under way; `undefined` if none is. */
  get underWay(): Promise<T> | undefined {
    return this.#done ? undefined : this.#run;
  }

  /**
   * Waits for the run under way, or begins one. A failure reaches those who wait for it, and the next to ask begins
   * another run.
   *
   * @param isGood Whether the result of the last run still serves, for example because it is not due yet. By default,
   *   each result serves only those who waited for it.
   */
  join(work: () => Promise<T>, isGood: (result: T) => boolean = () => false): Promise<T> {
    if (this.#done && !isGood(this.#done.result)) this.forget();
    this.#run ??= this.#begin(work);
    return this.#run;
  }

  /** Makes the next {@link join} begin a run. A run that is under way does not serve it, because its result may be outdated. */
  forget(): void {
    this.#run = undefined;
    this.#done = undefined;
  }

  #begin(work: () => Promise<T>): Promise<T> {
    const run = work().then(
      (result) => {
        if (this.#run === run) this.#done = { result };
        return result;
      },
      (error: unknown) => {
        if (this.#run === run) this.forget();
        throw error;
      },
    );
    return run;
  }
}
