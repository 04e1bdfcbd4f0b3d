import type { SecretSource } from "../secrets/secret-source.ts";

/** The watched names whose secrets have changed since their last push. A name is in it at most once. */
export class ChangedNames {
  readonly #source: SecretSource;
  readonly #watches = new Map<string, () => void>();
  readonly #changed = new Set<string>();
  #wake: () => void = () => undefined;

  constructor(source: SecretSource) {
    this.#source = source;
  }

  /** Watches exactly these names. */
  watchOnly(names: ReadonlySet<string>): void {
    for (const [name, unwatch] of this.#watches) {
      if (names.has(name)) continue;
      unwatch();
      this.#watches.delete(name);
      this.#changed.delete(name);
    }
    for (const name of names) {
      if (!this.#watches.has(name)) this.#watches.set(name, this.#watch(name));
    }
  }

  /** Resolves as soon as a name has changed. */
  async wait(): Promise<undefined> {
    if (this.#changed.size > 0) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Removes one changed name and returns it. */
  shift(): string | undefined {
    const [name] = this.#changed;
    if (name !== undefined) this.#changed.delete(name);
    return name;
  }

  #watch(name: string): () => void {
    return this.#source.watch(name, () => {
      this.#changed.add(name);
      this.#wake();
    });
  }
}
