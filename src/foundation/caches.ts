/** A bounded cache. Each entry has an instant of its own at which it expires. */
interface TtlCache<T> {
  readonly get: (key: string, now: Date) => T | undefined;
  readonly set: (key: string, value: T, until: Date) => void;
}

/** Creates a bounded cache. A full one evicts the entry that was set first, because a Map keeps the order of insertion. */
export function createTtlCache<T>(maximum: number): TtlCache<T> {
  const entries = new Map<string, { readonly value: T; readonly until: Date }>();
  return {
    get: (key, now) => {
      const entry = entries.get(key);
      return entry && now < entry.until ? entry.value : undefined;
    },
    set: (key, value, until) => {
      entries.delete(key);
      const [oldest] = entries.size >= maximum ? entries.keys() : [];
      if (oldest !== undefined) entries.delete(oldest);
      entries.set(key, { value, until });
    },
  };
}
