/** How long to wait for work, and the error that ends a wait in vain. */
export interface Timeout {
  /** Aborted when nobody waits any more. */
  readonly signal: AbortSignal;
  readonly milliseconds: number;
  readonly timeoutError: () => Error;
}

/**
 * The outcome of the work, or an error once its time is up. The work itself goes on: it looks at the
 * signal before each step that nobody waits for.
 */
export function withTimeout<T>(work: Promise<T>, timeout: Timeout): Promise<T> {
  const { signal, milliseconds, timeoutError } = timeout;
  return new Promise((resolve, reject) => {
    let isOver = false;
    const finish = (): void => {
      isOver = true;
      clearTimeout(timer);
    };
    const giveUp = (): void => {
      // A signal may abort after the answer, too, and an error costs its stack.
      if (isOver) return;
      finish();
      reject(timeoutError());
    };
    const timer = setTimeout(giveUp, milliseconds);
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp);
    work.then(
      (value) => {
        finish();
        resolve(value);
      },
      (error: unknown) => {
        finish();
        reject(error);
      },
    );
  });
}
