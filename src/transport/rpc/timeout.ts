/** How long an answer is worth waiting for, and what is said when it did not come. */
export interface Timeout {
  /** Aborted when nobody waits any more. */
  readonly signal: AbortSignal;
  readonly milliseconds: number;
  readonly giveUp: () => Error;
}

/**
 * The outcome of the work, unless patience ends first. The work itself cannot be stopped: it looks
 * at the signal before it does what should not be done for nobody.
 */
export function withTimeout<T>(work: Promise<T>, patience: Timeout): Promise<T> {
  const { signal, milliseconds, giveUp } = patience;
  return new Promise((resolve, reject) => {
    let isOver = false;
    const end = (): void => {
      // Signals abort when all is done, too, and an error costs its stack.
      if (!isOver) reject(giveUp());
    };
    if (signal.aborted) end();
    signal.addEventListener("abort", end);
    const timer = setTimeout(end, milliseconds);
    work.then(
      (value) => {
        isOver = true;
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        isOver = true;
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
