/** How long an answer is worth waiting for, and what is said when it did not come. */
export interface Patience {
  /** Aborted when nobody waits any more; not known before the call has begun. */
  readonly signal: AbortSignal | undefined;
  readonly milliseconds: number;
  readonly giveUp: () => Error;
}

/**
 * The outcome of the work, unless patience ends first. The work itself cannot be stopped: it looks
 * at the signal before it does what should not be done for nobody.
 */
export function withPatience<T>(work: Promise<T>, patience: Patience): Promise<T> {
  const { signal, milliseconds, giveUp } = patience;
  return new Promise((resolve, reject) => {
    const end = (): void => reject(giveUp());
    if (signal?.aborted) end();
    signal?.addEventListener("abort", end);
    const timer = setTimeout(end, milliseconds);
    work.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
