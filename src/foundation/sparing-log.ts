import type { OperationalEvent, OperationLog } from "./events.ts";

/**
 * Wraps a log so that each event has at most so many lines in a minute, because a peer could cause any number of them.
 * The last line that is logged says so; the others are dropped.
 *
 * @param callerOf Returns the caller behind an event, or `undefined` for an event without a limit. Each caller gets one
 *   line a minute. By default each line is by another caller.
 */
export function sparing<Log extends OperationLog>(
  log: Log,
  clock: () => Date,
  maximumLines = 60,
  callerOf: (event: OperationalEvent) => unknown = () => ({}),
): Log {
  const heard = new Map<OperationalEvent["event"], Set<unknown>>();
  let minute = 0;
  const operation = (event: OperationalEvent): void => {
    const now = Math.floor(clock().getTime() / 60_000);
    if (now !== minute) heard.clear();
    minute = now;
    const callers = heard.get(event.event) ?? new Set();
    heard.set(event.event, callers);
    const caller = callerOf(event);
    if (callers.has(caller) || callers.size === maximumLines) return;
    const isLast = caller !== undefined && callers.add(caller).size === maximumLines;
    const detail = `${event.detail ?? ""} (the last of this minute that is logged)`;
    log.operation(isLast ? { ...event, detail } : event);
  };
  return { ...log, operation };
}
