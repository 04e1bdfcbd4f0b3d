import type { Random } from "../../simulation/random.ts";

/** A whole number of at least 0 and less than `limit`. */
export const indexBelow = (random: Random, limit: number): number =>
  Math.floor(random.fraction() * limit);

/** One of the choices. @throws Error if there is none. */
export function oneOf<T>(random: Random, choices: readonly T[]): T {
  const chosen = choices[indexBelow(random, choices.length)];
  if (chosen === undefined) throw new Error("nothing to choose from");
  return chosen;
}

/** Octets from the source of random numbers. */
export const randomOctets = (random: Random, length: number): Buffer<ArrayBuffer> =>
  Buffer.from(Array.from({ length }, () => indexBelow(random, 256)));

/** Applies a change one to `most` times, mostly few. */
export function several<T>(random: Random, most: number, value: T, change: (value: T) => T): T {
  let changed = change(value);
  for (let i = 1; i < most && random.chance(0.4); i++) changed = change(changed);
  return changed;
}
