import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { OperatorError } from "../../foundation/operator-error.ts";

/** Does work whose failures by configuration or by the system an operator can mend. @throws OperatorError */
export async function orOperatorError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ConfigurationError) {
      throw new OperatorError(error.faults.join("\n         "));
    }
    if (error instanceof Error && "code" in error) throw new OperatorError(error.message);
    throw error;
  }
}

/** Everything that a failure stands for, the first to happen first. Node prints neither part of a SuppressedError. */
export function failuresOf(thrown: unknown): readonly unknown[] {
  return thrown instanceof SuppressedError
    ? [...failuresOf(thrown.suppressed), ...failuresOf(thrown.error)]
    : [thrown];
}
