import type { Random } from "../../simulation/random.ts";
import type { Octets } from "../../testkit/der/mutation.ts";

/**
 * One boundary at which Rampart reads what strangers write: how to make hostile input for it, and how to
 * judge the answer.
 */
export interface Target {
  /** The same octets for the same random numbers, in every run and on every machine. */
  readonly generate: (random: Random) => Octets;
  /**
   * Feeds the octets to the code under test and compares its answer with that of an independent oracle.
   *
   * @returns A short name of the outcome, such as `accepted` or the reason of the refusal.
   * @throws WrongAnswer for an answer that the oracle contradicts. Anything else is a fault of the code
   *   under test, which is a failure too.
   */
  readonly judge: (input: Octets) => Promise<string>;
}

/** An answer that an oracle contradicts. */
export class WrongAnswer extends Error {
  override readonly name = "WrongAnswer";
}

/** @throws WrongAnswer unless the condition holds. */
export function requireThat(condition: boolean, fault: string): asserts condition {
  if (!condition) throw new WrongAnswer(fault);
}
