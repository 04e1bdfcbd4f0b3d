import { Backoff } from "../../foundation/backoff.ts";
import { isRecent, isSetBack } from "../../foundation/caches.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";

interface Refresh<T> {
  readonly fetch: () => Promise<T>;
  /** When to fetch again after a value was fetched at this instant. Later calls may return an earlier time. */
  readonly dueAt: (value: T, fetchedAt: Date) => Date;
  /** Called for each failed fetch while an earlier value still serves. */
  readonly failed: (error: unknown) => void;
}

/**
 * Fetches a value when it is asked for, and again once that is due. While fetches fail, the pauses between them grow,
 * and the last value serves.
 *
 * @returns A function that gives the value at `now`. Concurrent callers share one fetch. As long as none has succeeded,
 *   it rejects with the last failure, and `failed` is not called.
 */
export function createRefreshing<T>({
  fetch,
  dueAt,
  failed,
}: Refresh<T>): (now: Date) => Promise<T> {
  let value: { readonly of: T; readonly at: Date } | undefined;
  let failure: unknown;
  let failedAt: Date | undefined;
  let pauseSeconds = 0;
  let failures = 0;
  const renewals = new SingleFlight<void>();

  async function renew(now: Date): Promise<void> {
    try {
      value = { of: await fetch(), at: now };
      failures = 0;
    } catch (error) {
      failure = error;
      failedAt = now;
      pauseSeconds = Backoff.milliseconds(Backoff.usual.outage, ++failures) / 1000;
      if (value) failed(error);
    }
  }

  /** If the clock was set back, the value may not be valid yet. */
  const isDue = (now: Date): boolean =>
    value && failures === 0
      ? now >= dueAt(value.of, value.at) || isSetBack(value.at, now)
      : !isRecent(failedAt, pauseSeconds, now);

  return async (now) => {
    // One fetch serves all concurrent callers, so that they cannot flood the CA.
    if (isDue(now)) await renewals.join(() => renew(now));
    if (value) return value.of;
    throw failure;
  };
}
