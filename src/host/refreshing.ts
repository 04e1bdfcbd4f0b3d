import { type Backoff, backoffMilliseconds } from "../foundation/backoff.ts";

const backoff: Backoff = { firstMilliseconds: 1_000, longestMilliseconds: 60_000 };

/** What is kept, and when it is old. */
export interface Refresh<T> {
  readonly fetch: () => Promise<T>;
  /** When a value fetched at `now` is to be fetched again. */
  readonly dueAt: (value: T, now: Date) => Date;
  /** Told of every fetch that fails while there is a value to go on with. */
  readonly failed: (error: unknown) => void;
}

/**
 * A value from elsewhere, fetched again when it is due. While that fails it is tried again with growing
 * pauses, and the value there is goes on.
 *
 * @returns The value at `now`; rejects with the last failure as long as there has never been one.
 */
export function createRefreshing<T>({
  fetch,
  dueAt,
  failed,
}: Refresh<T>): (now: Date) => Promise<T> {
  let value: { readonly of: T } | undefined;
  let failure: unknown;
  let nextTry = new Date(0);
  let failures = 0;
  let renewing: Promise<void> | undefined;

  async function renew(now: Date): Promise<void> {
    try {
      const fetched = await fetch();
      value = { of: fetched };
      nextTry = dueAt(fetched, now);
      failures = 0;
    } catch (error) {
      failure = error;
      nextTry = new Date(now.getTime() + backoffMilliseconds(backoff, ++failures));
      if (value) failed(error);
    }
  }

  return async (now) => {
    // One fetch serves all who ask meanwhile: anybody may ask, and the CA is not theirs to flood.
    if (now >= nextTry) {
      renewing ??= renew(now).finally(() => {
        renewing = undefined;
      });
      await renewing;
    }
    if (value) return value.of;
    throw failure;
  };
}
