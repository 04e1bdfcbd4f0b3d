/** How long callers may be kept waiting for another trust bundle. */
export interface BundleWaiting {
  /** No answer is held for longer; 0 where none is. */
  readonly longestSeconds: number;
  /** How often it is looked for them whether the bundle is another. */
  readonly lookSeconds: number;
}

/** The place of one who waits for another trust bundle. */
export interface WaitingPlace {
  /** How long it is kept at most. */
  readonly seconds: number;
  /** Resolves when it is time to look: to whether the wait goes on after this look. */
  readonly pause: (caller: AbortSignal) => Promise<boolean>;
  readonly leave: () => void;
}

/** The places of those who wait, which are bounded. */
export interface BundleWaits {
  /** Nothing for one who does not want to wait, where all places are taken, and at the end. */
  readonly enter: (wishSeconds: number | undefined, now: Date) => WaitingPlace | undefined;
}

/** Each holds a connection, and a Worker has 128 MB for all that it holds. */
const maximumPlaces = 2000;

/** A place that nobody has left by then belongs to a request that its platform has dropped. */
const forgottenSeconds = 10;

/** @param ending Aborted when nobody shall wait any longer. */
export function createBundleWaits(
  { longestSeconds, lookSeconds }: BundleWaiting,
  ending?: AbortSignal,
): BundleWaits {
  const places = new Map<WaitingPlace, number>();

  function isFull(now: Date): boolean {
    if (places.size < maximumPlaces) return false;
    for (const [place, until] of places) if (until < now.getTime()) places.delete(place);
    return places.size >= maximumPlaces;
  }

  return {
    enter: (wishSeconds = 0, now) => {
      const seconds = Math.min(wishSeconds, longestSeconds);
      if (seconds < 1 || ending?.aborted || isFull(now)) return undefined;
      let left = seconds;
      const place: WaitingPlace = {
        seconds,
        pause: async (caller) => {
          const signals = ending ? [caller, ending] : [caller];
          if (left > 0) await sleep(1000 * Math.min(left, lookSeconds), signals);
          left -= lookSeconds;
          return left > 0 && !signals.some(({ aborted }) => aborted);
        },
        leave: () => void places.delete(place),
      };
      places.set(place, now.getTime() + 1000 * (seconds + forgottenSeconds));
      return place;
    },
  };
}

/** Ends early when one of the signals aborts. */
function sleep(milliseconds: number, signals: readonly AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      clearTimeout(timer);
      for (const signal of signals) signal.removeEventListener("abort", wake);
      resolve();
    };
    const timer = setTimeout(wake, milliseconds);
    for (const signal of signals) {
      signal.addEventListener("abort", wake);
      if (signal.aborted) wake();
    }
  });
}
