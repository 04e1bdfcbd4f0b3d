import { CaError, OperatorError, type Refusal } from "../../src/foundation/errors.ts";

/** The refusal that the work ends in. Anything else that it throws, or an answer, fails the test. */
export async function refusalOf(work: () => unknown): Promise<Refusal> {
  const error = await errorOf(work);
  if (error instanceof CaError) return error.refusal;
  throw error;
}

/** The OperatorError that the work ends in. Anything else that it throws, or an answer, fails the test. */
export async function operatorRefusalOf(work: () => unknown): Promise<OperatorError> {
  const error = await errorOf(work);
  if (error instanceof OperatorError) return error;
  throw error;
}

async function errorOf(work: () => unknown): Promise<unknown> {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was refused");
}
