/** Work that is done again and again, never twice at once. */
export interface Recurrence {
  /** Resolves once what is under way has ended; nothing begins any more. */
  readonly end: () => Promise<void>;
}

/**
 * Does the work now and then again and again, so many seconds after it was done, or as many as it says
 * itself. What it throws goes to `failed`, and does not keep the next time from coming.
 */
export function recur(
  work: () => Promise<number | undefined> | Promise<void>,
  seconds: number,
  failed: (error: unknown) => void,
): Recurrence {
  let timer: NodeJS.Timeout | undefined;
  let hasEnded = false;
  let current = Promise.resolve();
  const run = (): void => {
    current = Promise.resolve(work())
      .catch(failed)
      .then((next) => {
        if (!hasEnded) timer = setTimeout(run, (next ?? seconds) * 1000);
      });
  };
  run();
  return {
    end: () => {
      hasEnded = true;
      clearTimeout(timer);
      return current;
    },
  };
}
