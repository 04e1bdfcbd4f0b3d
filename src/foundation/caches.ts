/** A bounded cache. An entry is returned until its own instant `until`, but not if the clock was set back since `set`. */
interface TtlCache<T> {
  readonly get: (key: string, now: Date) => T | undefined;
  readonly set: (key: string, value: T, now: Date, until: Date) => void;
}

/** Creates a bounded cache. A full one evicts the entry that was set first, because a Map keeps the order of insertion. */
export function createTtlCache<T>(maximum: number): TtlCache<T> {
  const entries = new Map<string, { readonly value: T; readonly at: Date; readonly until: Date }>();
  return {
    get: (key, now) => {
      const entry = entries.get(key);
      return entry && now < entry.until && !isSetBack(entry.at, now) ? entry.value : undefined;
    },
    set: (key, value, now, until) => {
      entries.delete(key);
      const [oldest] = entries.size >= maximum ? entries.keys() : [];
      if (oldest !== undefined) entries.delete(oldest);
      entries.set(key, { value, at: now, until });
    },
  };
}

/** Requests under way at once may differ by this much in their times. */
const toleratedSetBackMilliseconds = 60_000;

/** Whether the clock was set back by over a minute since an event, so that nobody knows how old the event is. */
export const isSetBack = (at: Date, now: Date): boolean =>
  now.getTime() < at.getTime() - toleratedSetBackMilliseconds;

/** Whether an event is less than this old; `false` without an event, and if the clock {@link isSetBack} since. */
export const isRecent = (at: Date | undefined, seconds: number, now: Date): boolean =>
  at !== undefined && now.getTime() < at.getTime() + 1000 * seconds && !isSetBack(at, now);
