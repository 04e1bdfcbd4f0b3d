/** The median; of an even number of values, the greater of the middle two. */
export function median(list: readonly number[]): number {
  return list.toSorted((a, b) => a - b)[list.length >> 1] ?? Number.NaN;
}
