/** How the pauses between attempts grow. */
export interface Backoff {
  readonly firstMilliseconds: number;
  readonly longestMilliseconds: number;
  /** The least and the greatest share of a pause. Chance chooses between them; `[1, 1]` by default. */
  readonly spread?: readonly [number, number];
}

/**
 * The pause before the next attempt. It doubles with each failure up to the longest, and is then spread.
 *
 * @param failures In a row, at least 1.
 * @param random At least 0 and less than 1. Zero gives the longest pause of the spread.
 */
export function backoffMilliseconds(
  { firstMilliseconds, longestMilliseconds, spread: [least, greatest] = [1, 1] }: Backoff,
  failures: number,
  random: number = 0,
): number {
  const pause = Math.min(longestMilliseconds, firstMilliseconds * 2 ** (failures - 1));
  return pause * (greatest - (greatest - least) * random);
}
