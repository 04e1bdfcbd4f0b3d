/** The limit of a wait, and the error that ends it. */
export interface Timeout {
  /** Aborted when the caller has hung up or its deadline has passed. */
  readonly signal: AbortSignal;
  readonly milliseconds: number;
  readonly timeoutError: () => Error;
}

/**
 * Waits for the work until the timeout or the signal ends the wait. Neither stops the work, which reads
 * the signal itself before each costly step.
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
      // A signal may also abort after the outcome, and an error costs its stack.
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
