/** Pseudo-random numbers, the same sequence for the same seed (mulberry32). */
export interface Random {
  /** At least 0, less than 1. */
  readonly fraction: () => number;
  readonly between: (low: number, high: number) => number;
  readonly chance: (probability: number) => boolean;
}

export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const fraction = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  return {
    fraction,
    between: (low, high) => low + (high - low) * fraction(),
    chance: (probability) => fraction() < probability,
  };
}
