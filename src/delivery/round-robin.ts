/**
 * A list from one of its members on, then those before it. The milliseconds of the clock choose the first:
 * crons come at round times, and over time each member comes first.
 */
export function rotatedByClock<T>(list: readonly T[], now: Date): T[] {
  const first = now.getTime() % Math.max(list.length, 1);
  return [...list.slice(first), ...list.slice(0, first)];
}
