interface Part<T> {
  readonly value: T;
  readonly ending: AbortController;
}

/**
 * Parts that outlive a change of the configuration while what they are made from stays the same: keys that
 * were fetched, a watch on a cluster.
 *
 * A composition asks for its parts. Then either {@link settle} ends those that it has not asked for, or
 * {@link abandon} ends those that are new.
 */
export class Lasting<T> {
  #inForce = new Map<string, Part<T>>();
  #next = new Map<string, Part<T>>();

  /**
   * @param madeFrom Everything that decides the part: JSON, maps and sets.
   * @param make Its signal aborts when the part is over.
   */
  of(madeFrom: unknown, make: (ending: AbortSignal) => T): T {
    const key = JSON.stringify(madeFrom, withEntries);
    const known = this.#next.get(key) ?? this.#inForce.get(key);
    const part = known ?? create(make);
    this.#next.set(key, part);
    return part.value;
  }

  settle(): void {
    endMissing(this.#inForce, this.#next);
    this.#inForce = this.#next;
    this.#next = new Map();
  }

  abandon(): void {
    endMissing(this.#next, this.#inForce);
    this.#next = new Map();
  }
}

/** JSON has no maps and sets: two with different content would be the same text. */
const withEntries = (_: string, value: unknown): unknown =>
  value instanceof Map || value instanceof Set ? [...value] : value;

function create<T>(make: (ending: AbortSignal) => T): Part<T> {
  const ending = new AbortController();
  return { value: make(ending.signal), ending };
}

function endMissing<T>(
  parts: ReadonlyMap<string, Part<T>>,
  kept: ReadonlyMap<string, Part<T>>,
): void {
  for (const [key, { ending }] of parts) if (!kept.has(key)) ending.abort();
}

/** A bounded cache. Each entry has an instant of its own at which it expires. */
interface TtlCache<T> {
  readonly recall: (key: string, now: Date) => T | undefined;
  readonly keep: (key: string, value: T, until: Date) => void;
}

/** Evicts the oldest entry first: a Map keeps its entries in order of insertion. */
export function createTtlCache<T>(maximum: number): TtlCache<T> {
  const entries = new Map<string, { readonly value: T; readonly until: Date }>();
  return {
    recall: (key, now) => {
      const entry = entries.get(key);
      return entry && now < entry.until ? entry.value : undefined;
    },
    keep: (key, value, until) => {
      entries.delete(key);
      const [oldest] = entries.size >= maximum ? entries.keys() : [];
      if (oldest !== undefined) entries.delete(oldest);
      entries.set(key, { value, until });
    },
  };
}
