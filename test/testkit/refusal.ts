import { CaError, type Refusal } from "../../src/foundation/errors.ts";

/** The refusal that the work ends in. Anything else that it throws, or an answer, fails the test. */
export async function refusalOf(work: () => unknown): Promise<Refusal> {
  try {
    await work();
  } catch (error) {
    if (error instanceof CaError) return error.refusal;
    throw error;
  }
  throw new Error("nothing was refused");
}
