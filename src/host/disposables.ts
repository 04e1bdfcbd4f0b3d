/** What has been started and must be ended: the last first. */
export class Endings {
  readonly #ends: (() => unknown)[] = [];

  add(end: () => unknown): void {
    this.#ends.push(end);
  }

  /** Ends everything, even when some of it fails. @throws the first failure. */
  async end(): Promise<void> {
    const failures: unknown[] = [];
    for (let end = this.#ends.pop(); end; end = this.#ends.pop()) {
      await Promise.resolve(end()).catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
  }
}
