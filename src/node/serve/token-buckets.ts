import type { Quotas } from "../../ca/issuance/quotas.ts";
import type { QuotaName } from "../../foundation/refusal.ts";

/**
 * Takes a token from the bucket of a key.
 * @returns 0, or the seconds until an empty bucket has a token. An older instant counts as the latest one.
 */
type TokenBuckets = (key: string, instant: Date) => number;

/**
 * Creates the quotas of a CA as token buckets in the memory of this process. Their time never goes back, even when
 * the clock does.
 * @param perMinute May change.
 */
export function bucketQuotas(
  clock: () => Date,
  perMinute: () => Readonly<Record<QuotaName, number>>,
): Quotas {
  // The instant of the call is not used, because the call may have waited, and the clock may have been set back.
  const time = forwardTime(clock);
  const quota = (name: QuotaName): Quotas["caller"] => {
    const take = createTokenBuckets(() => perMinute()[name]);
    return (key) => take(key, time());
  };
  return { caller: quota("caller"), issuer: quota("issuer") };
}

/** Creates a clock that never goes back. When `clock` goes back, the new one continues from where it was. */
export function forwardTime(clock: () => Date): () => Date {
  let read = clock().getTime();
  let time = read;
  return () => {
    const now = clock().getTime();
    time += Math.max(0, now - read);
    read = now;
    return new Date(time);
  };
}

const minute = 60_000;

/** The most buckets that are not full, each of about 200 bytes. */
const maximumBuckets = 20_000;

/** The least time between two searches for buckets that are full again. */
const sweepMilliseconds = 1000;

/** Tolerated milliseconds, because the sum of many intervals is not exact. */
const inexact = 1;

const ownerOf = (key: string): string => key.split(" ", 1)[0] ?? "";

/** The shared bucket of all keys beyond the maximum. */
const shared = "";

/**
 * One token bucket for each key: it holds what a key may take in a minute, and fills in a minute.
 *
 * A bucket is stored as the instant at which it will be full again, and full ones are not stored. When too many are
 * stored, all other keys share one, so that a flood of keys gets less and not more. The keys of one owner (the text
 * before the first space) have no more buckets than are left for all others.
 *
 * @param perMinute May change. Buckets then keep the same fraction of their size.
 */
export function createTokenBuckets(
  perMinute: () => number,
  maximum: number = maximumBuckets,
): TokenBuckets {
  const fullAt = new Map<string, number>();
  const bucketsOf = new Map<string, number>();
  let nextSweep = 0;
  let now = 0;

  function sweep(): void {
    if (now < nextSweep) return;
    nextSweep = now + sweepMilliseconds;
    for (const [key, full] of fullAt) if (full <= now) fullAt.delete(key);
    bucketsOf.clear();
    for (const key of fullAt.keys()) countOne(ownerOf(key));
  }

  function countOne(owner: string): void {
    bucketsOf.set(owner, (bucketsOf.get(owner) ?? 0) + 1);
  }

  const hasRoom = (key: string): boolean =>
    (bucketsOf.get(ownerOf(key)) ?? 0) < maximum - fullAt.size;

  function bucketOf(key: string): string {
    if (fullAt.has(key)) return key;
    if (!hasRoom(key)) sweep();
    if (!hasRoom(key)) return fullAt.size < maximum ? ownerOf(key) : shared;
    countOne(ownerOf(key));
    return key;
  }

  return (key, instant) => {
    const interval = minute / perMinute();
    now = Math.max(now, instant.getTime());
    const bucket = bucketOf(key);
    const full = Math.max(fullAt.get(bucket) ?? now, now) + interval;
    const wait = full - (now + minute);
    const isEmpty = wait > Math.min(inexact, interval / 2);
    fullAt.set(bucket, isEmpty ? full - interval : full);
    return isEmpty ? wait / 1000 : 0;
  };
}
