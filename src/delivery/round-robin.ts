/**
 * A list from any of its members on. Crons come at round times, and milliseconds are their only chance: by
 * them, who comes last today comes first some time.
 */
export function rotatedByClock<T>(list: readonly T[], now: Date): T[] {
  const first = now.getTime() % Math.max(list.length, 1);
  return [...list.slice(first), ...list.slice(0, first)];
}
