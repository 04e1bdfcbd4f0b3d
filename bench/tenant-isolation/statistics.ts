import { median } from "../median.ts";

/** Whether two kinds of requests can be told apart by how long their answers take. */
export interface Comparison {
  /** The probability that an answer of the second kind takes longer than one of the first; a half, if nothing shows. */
  readonly slower: number;
  /** How far chance alone may take that from a half: four standard errors. */
  readonly chance: number;
  /** Between the medians, in microseconds. */
  readonly difference: number;
}

/** Mann-Whitney's U over all pairs, which one slow answer moves no more than any other. */
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
