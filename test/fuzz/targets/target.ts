import { CaError } from "../../../src/foundation/errors.ts";
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

/** What the work gives, or `undefined` where it throws one of these errors, by which the code under test refuses. */
export async function unlessRefused<T>(
  work: () => T | Promise<T>,
  ...refusals: readonly (abstract new (
    ...parts: never
  ) => Error)[]
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (refusals.some((kind) => error instanceof kind)) return undefined;
    throw error;
  }
}

/** What the work gives, or the reason of the CaError that it throws: of a credential, what was wrong with it. */
export async function orReason<T>(work: () => Promise<T>): Promise<T | string> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CaError)) throw error;
    const { refusal } = error;
    return refusal.reason === "credential-rejected"
      ? `rejected by ${refusal.check}`
      : refusal.reason;
  }
}

/** What a text says as JSON, or `undefined`. */
export const jsonIn = (text: string): Promise<unknown> =>
  unlessRefused(() => JSON.parse(text), SyntaxError);

/** @throws WrongAnswer unless the condition holds. */
export function requireThat(condition: boolean, fault: string): asserts condition {
  if (!condition) throw new WrongAnswer(fault);
}
