/** Values that arrive one by one, for a test that waits for them. */
export class Arrivals<T> {
  readonly all: T[] = [];
  readonly #waiting = new Set<() => void>();

  add(value: T): void {
    this.all.push(value);
    for (const check of [...this.#waiting]) check();
  }

  /** Resolves with the n-th value, counted from 1, even if it came before the call. */
  nth(n: number): Promise<T> {
    return new Promise((resolve) => {
      const check = (): void => {
        const [value] = this.all.slice(n - 1, n);
        if (value === undefined) return;
        this.#waiting.delete(check);
        resolve(value);
      };
      this.#waiting.add(check);
      check();
    });
  }
}
