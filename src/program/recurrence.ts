import { Backoff } from "../foundation/backoff.ts";
import { type Pause, pause as systemPause } from "../foundation/pause.ts";
import { SingleFlight } from "../foundation/shared-work.ts";

/** Work that repeats, one run after the other. */
export interface Recurrence {
  /** Starts no further run, and resolves when the current one has ended. */
  readonly end: () => Promise<void>;
}

/** Starts work that recurs. */
export const Recurrence = {
  /**
   * Runs the work at once, and again `seconds` after each run, or after as many seconds as the run
   * returns. An error goes to `failed` and does not end the repetition.
   */
  start(
    work: () => Promise<number | undefined> | Promise<void>,
    seconds: number,
    failed: (error: unknown) => void,
    pause: Pause = systemPause,
  ): Recurrence {
    const ending = new AbortController();

    async function workOnce(): Promise<number | undefined> {
      try {
        return (await work()) ?? undefined;
      } catch (error) {
        failed(error);
        return undefined;
      }
    }

    async function run(): Promise<void> {
      while (!ending.signal.aborted) {
        const next = await workOnce();
        await pause(1000 * (next ?? seconds), ending.signal);
      }
    }

    const running = run();
    return {
      end: () => {
        ending.abort();
        return running;
      },
    };
  },
};

interface Refresh<T> {
  readonly fetch: () => Promise<T>;
  /** The time of the next fetch for a value that was fetched at this instant. It may come nearer later. */
  readonly dueAt: (value: T, fetchedAt: Date) => Date;
  /** Called for each failed fetch while an earlier value still serves. */
  readonly failed: (error: unknown) => void;
}

/**
 * Fetches a value, and fetches it again when that is due. While fetches fail, the pauses between them
 * grow, and the last value serves.
 *
 * @returns A function that gives the value at `now`. It rejects with the last failure before there is one.
 */
export function createRefreshing<T>({
  fetch,
  dueAt,
  failed,
}: Refresh<T>): (now: Date) => Promise<T> {
  let value: { readonly of: T; readonly at: Date } | undefined;
  let failure: unknown;
  let retryAt = new Date(0);
  let failures = 0;
  const renewals = new SingleFlight<void>();

  async function renew(now: Date): Promise<void> {
    try {
      value = { of: await fetch(), at: now };
      failures = 0;
    } catch (error) {
      failure = error;
      retryAt = new Date(now.getTime() + Backoff.milliseconds(Backoff.usual.outage, ++failures));
      if (value) failed(error);
    }
  }

  /** Whether the clock has been set back since: what was fetched then may not be valid yet. */
  const isSetBack = (now: Date): boolean =>
    value !== undefined && failures === 0 && now.getTime() < value.at.getTime() - 60_000;

  const nextFetch = (): Date => (value && failures === 0 ? dueAt(value.of, value.at) : retryAt);

  return async (now) => {
    // One fetch serves all concurrent callers, so that they cannot flood the CA.
    if (now >= nextFetch() || isSetBack(now)) await renewals.join(() => renew(now));
    if (value) return value.of;
    throw failure;
  };
}
