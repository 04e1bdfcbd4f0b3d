import { type Random, seededRandom } from "../../simulation/random.ts";

/** The random numbers of one case. They depend on the seed, the target and the case's number alone. */
export function caseRandom(seed: number, targetName: string, caseNumber: number): Random {
  let state = seed >>> 0;
  for (const octet of Buffer.from(`${targetName} ${caseNumber}`)) {
    state = Math.imul(state ^ octet, 0x01000193) >>> 0;
    state = (state ^ (state >>> 15)) >>> 0;
  }
  return seededRandom(state);
}
