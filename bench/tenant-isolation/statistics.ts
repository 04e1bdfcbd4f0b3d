import { median } from "../measurement/median.ts";

/** A comparison of the durations of two kinds of answers. */
interface Comparison {
  /** The probability that an answer of the second kind takes longer than one of the first; 0.5 means no difference. */
  readonly slower: number;
  /** The deviation from 0.5 that chance alone explains: four standard errors. */
  readonly chance: number;
  /** The difference of the medians, in microseconds. */
  readonly difference: number;
}

/** The Mann-Whitney U test over all pairs, which is robust against single slow answers. */
export function compare(first: readonly number[], second: readonly number[]): Comparison {
  const all = [
    ...first.map((value) => ({ value, isSecond: false })),
    ...second.map((value) => ({ value, isSecond: true })),
  ].toSorted((a, b) => a.value - b.value);
  const [m, n] = [first.length, second.length];
  const ranks = all.reduce((sum, { isSecond }, i) => sum + (isSecond ? i + 1 : 0), 0);
  const u = ranks - (n * (n + 1)) / 2;
  return {
    slower: u / (m * n),
    chance: 4 * Math.sqrt((m + n + 1) / (12 * m * n)),
    difference: 1000 * (median(second) - median(first)),
  };
}
