/** How long callers may be kept waiting for another trust bundle. */
export interface LongPollLimits {
  /** No answer is held for longer; 0 where none is. */
  readonly longestSeconds: number;
  /** How often it is looked for them whether the bundle is another. */
  readonly lookSeconds: number;
}

/** The place of one who waits for another trust bundle. */
export interface LongPoll {
  /** How long it is kept at most. */
  readonly seconds: number;
  /** Looks again and again, until there is something to see or the wait is over. */
  readonly hold: (look: () => Promise<boolean>, caller: AbortSignal) => Promise<void>;
  readonly leave: () => void;
}

/** The places of those who wait, which are bounded. */
export interface LongPolls {
  /** Nothing for one who does not want to wait, where all places are taken, and at the end. */
  readonly enter: (wishSeconds: number | undefined, now: Date) => LongPoll | undefined;
}

/** Each holds a connection, and a Worker has 128 MB for all that it holds. */
const maximumPlaces = 2000;

/** A place that nobody has left by then belongs to a request that its platform has dropped. */
const forgottenSeconds = 10;

/** @param ending Aborted when nobody shall wait any longer. */
export function createLongPolls(
  { longestSeconds, lookSeconds }: LongPollLimits,
  ending?: AbortSignal,
): LongPolls {
  const places = new Map<LongPoll, number>();

  function isFull(now: Date): boolean {
    if (places.size < maximumPlaces) return false;
    for (const [place, until] of places) if (until < now.getTime()) places.delete(place);
    return places.size >= maximumPlaces;
  }

  return {
    enter: (wishSeconds = 0, now) => {
      const seconds = Math.min(wishSeconds, longestSeconds);
      if (seconds < 1 || ending?.aborted || isFull(now)) return undefined;
      const place: LongPoll = {
        seconds,
        hold: (look, caller) =>
          lookUntil(look, { seconds, lookSeconds, endings: ending ? [caller, ending] : [caller] }),
        leave: () => void places.delete(place),
      };
      places.set(place, now.getTime() + 1000 * (seconds + forgottenSeconds));
      return place;
    },
  };
}

interface Wait {
  readonly seconds: number;
  readonly lookSeconds: number;
  /** Each ends it. */
  readonly endings: readonly AbortSignal[];
}

async function lookUntil(look: () => Promise<boolean>, wait: Wait): Promise<void> {
  const { seconds, lookSeconds, endings } = wait;
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
        const timer = setTimeout(resolve, 1000 * Math.min(left, lookSeconds));
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      left -= lookSeconds;
      if (await look()) return;
    }
  } finally {
    for (const ending of endings) ending.removeEventListener("abort", end);
  }
}
