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
