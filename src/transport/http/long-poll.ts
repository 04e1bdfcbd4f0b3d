/** The limits of long polls for a changed trust bundle. */
export interface LongPollLimits {
  /** The longest wait; 0 switches long polls off. */
  readonly longestSeconds: number;
  /** The time between two reads of the bundle. */
  readonly readSeconds: number;
}

/** A caller that waits for a changed trust bundle. */
export interface LongPoll {
  /** The longest that this caller waits. */
  readonly seconds: number;
  /** Calls `hasChanged` until it finds a change, the wait is over, or the caller hangs up. */
  readonly hold: (hasChanged: () => Promise<boolean>, caller: AbortSignal) => Promise<void>;
  readonly leave: () => void;
}

/** The long polls under way, whose number is bounded. */
export interface LongPolls {
  /**
   * `undefined` for a caller that does not ask to wait, beyond the greatest number, and once the server
   * ends.
   */
  readonly enter: (wishSeconds: number | undefined, now: Date) => LongPoll | undefined;
}

/** A long poll holds a connection, and an isolate of a Worker has 128 MB for everything. */
const maximumLongPolls = 2000;

/** A long poll that has not left so long after its wait belongs to a request that the platform dropped. */
const forgottenSeconds = 10;

/** @param ending Aborted when the server ends, and with it every wait. */
export function createLongPolls(
  { longestSeconds, readSeconds }: LongPollLimits,
  ending?: AbortSignal,
): LongPolls {
  const endsOf = new Map<LongPoll, number>();

  function isFull(now: Date): boolean {
    if (endsOf.size < maximumLongPolls) return false;
    for (const [longPoll, end] of endsOf) if (end < now.getTime()) endsOf.delete(longPoll);
    return endsOf.size >= maximumLongPolls;
  }

  return {
    enter: (wishSeconds = 0, now) => {
      const seconds = Math.min(wishSeconds, longestSeconds);
      if (seconds < 1 || ending?.aborted || isFull(now)) return undefined;
      const longPoll: LongPoll = {
        seconds,
        hold: (hasChanged, caller) =>
          pollUntil(hasChanged, {
            seconds,
            readSeconds,
            endings: ending ? [caller, ending] : [caller],
          }),
        leave: () => void endsOf.delete(longPoll),
      };
      endsOf.set(longPoll, now.getTime() + 1000 * (seconds + forgottenSeconds));
      return longPoll;
    },
  };
}

interface Wait {
  readonly seconds: number;
  readonly readSeconds: number;
  /** Each of these signals ends the wait. */
  readonly endings: readonly AbortSignal[];
}

async function pollUntil(hasChanged: () => Promise<boolean>, wait: Wait): Promise<void> {
  const { seconds, readSeconds, endings } = wait;
  let left = endings.some(({ aborted }) => aborted) ? 0 : seconds;
  let wake = (): void => {};
  const end = (): void => {
    left = 0;
    wake();
  };
  for (const ending of endings) ending.addEventListener("abort", end);
  try {
    while (left > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 1000 * Math.min(left, readSeconds));
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      left -= readSeconds;
      if (await hasChanged()) return;
    }
  } finally {
    for (const ending of endings) ending.removeEventListener("abort", end);
  }
}
