import { UpstreamError } from "../../ca/upstream/upstream-authority.ts";
import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { OperatorError } from "../../foundation/operator-error.ts";

/** Runs work, and rethrows a failure that an operator can mend. @throws OperatorError */
export async function orOperatorError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ConfigurationError) {
      throw new OperatorError(error.faults.join("\n         "));
    }
    if (error instanceof UpstreamError) throw new OperatorError(error.message);
    if (error instanceof Error && "code" in error) throw new OperatorError(error.message);
    throw error;
  }
}

/** The failures in a thrown value, in their order. Node prints neither part of a SuppressedError. */
export function failuresOf(thrown: unknown): readonly unknown[] {
  return thrown instanceof SuppressedError
    ? [...failuresOf(thrown.suppressed), ...failuresOf(thrown.error)]
    : [thrown];
}
