/** Waits for this long, or until the signal aborts; either way it resolves, and leaves no timer. */
export type Pause = (milliseconds: number, signal?: AbortSignal) => Promise<void>;

/** Waits by the timers of the platform. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end);
  });
}

/**
 * Awaits work for at most this long. Late work goes on, and no timer stays behind.
 *
 * @returns What the work resolved with, or `undefined` if it is late. An earlier rejection is passed on.
 */
export async function waitFor<T>(
  work: Promise<T>,
  milliseconds: number,
  wait: Pause = pause,
): Promise<T | undefined> {
  const done = new AbortController();
  try {
    return await Promise.race([work, wait(milliseconds, done.signal).then(() => undefined)]);
  } finally {
    done.abort();
  }
}
