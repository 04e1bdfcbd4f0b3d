/** A bounded cache. Each entry has an instant of its own at which it expires. */
export interface TtlCache<T> {
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
