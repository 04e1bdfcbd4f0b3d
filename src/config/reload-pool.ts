import type { IssuerKeys } from "../authn/issuer-keys.ts";
import type { TokenReview } from "../authn/token-review.ts";
import type { CrlSource } from "../ca/revocation/published-crls.ts";
import type { Pods } from "../kubernetes/pods.ts";

interface Part<T> {
  readonly value: T;
  readonly ending: AbortController;
}

/**
 * Resources that survive a reload of the configuration while what they are made from stays the same: fetched keys, a
 * watch on a cluster.
 *
 * Building a configuration takes its resources by {@link of}. Afterwards {@link commit} disposes of the resources
 * that the new configuration has not taken. {@link rollback} instead disposes of those that were made for it.
 */
export class ReloadPool<T> {
  #committed = new Map<string, Part<T>>();
  #next = new Map<string, Part<T>>();

  /**
   * Returns the resource that was made from equal input, or makes one.
   *
   * @param madeFrom Everything that the resource depends on: JSON, maps and sets.
   * @param make Makes the resource. The signal aborts when the resource is disposed of.
   */
  of(madeFrom: unknown, make: (ending: AbortSignal) => T): T {
    const key = JSON.stringify(madeFrom, withEntries);
    const existing = this.#next.get(key) ?? this.#committed.get(key);
    const part = existing ?? create(make);
    this.#next.set(key, part);
    return part.value;
  }

  /** Keeps the resources taken since the last call, and disposes of the others. */
  commit(): void {
    disposeMissing(this.#committed, this.#next);
    this.#committed = this.#next;
    this.#next = new Map();
  }

  /** Disposes of the resources that were made since the last call, and keeps all others. */
  rollback(): void {
    disposeMissing(this.#next, this.#committed);
    this.#next = new Map();
  }
}

/** Replaces maps and sets by their entries, because JSON would lose those. */
const withEntries = (_: string, value: unknown): unknown =>
  value instanceof Map || value instanceof Set ? [...value] : value;

function create<T>(make: (ending: AbortSignal) => T): Part<T> {
  const ending = new AbortController();
  return { value: make(ending.signal), ending };
}

function disposeMissing<T>(
  parts: ReadonlyMap<string, Part<T>>,
  kept: ReadonlyMap<string, Part<T>>,
): void {
  for (const [key, { ending }] of parts) if (!kept.has(key)) ending.abort();
}

/**
 * The resources of a CA that survive a reload of the configuration. Otherwise a change of one cluster would drop the
 * cached keys of an issuer that cannot be reached, list the pods of all clusters again, and sign every CRL again.
 */
export interface ReloadPools {
  readonly keys: ReloadPool<IssuerKeys>;
  readonly reviews: ReloadPool<TokenReview>;
  readonly pods: ReloadPool<Pods>;
  readonly crls: ReloadPool<CrlSource>;
}

/** What composing a CA takes from pools. */
export type ReusedParts = {
  readonly [Kind in keyof ReloadPools]: Pick<ReloadPools[Kind], "of">;
};

/** Creates pools. */
export const ReloadPools = {
  /** Creates empty pools. */
  create: (): ReloadPools => ({
    keys: new ReloadPool(),
    reviews: new ReloadPool(),
    pods: new ReloadPool(),
    crls: new ReloadPool(),
  }),
};
