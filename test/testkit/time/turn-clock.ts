/** The real time, which stands still until the next wait, as in production on Workers. */
export function createTurnClock(): () => Date {
  let now: Date | undefined;
  return () => {
    if (now === undefined) queueMicrotask(() => (now = undefined));
    now ??= new Date();
    return now;
  };
}
