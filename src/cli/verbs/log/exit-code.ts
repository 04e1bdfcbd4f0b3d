import { FetchError } from "../../../foundation/http/json-fetch.ts";
import { OperatorError } from "../../../foundation/operator-error.ts";
import { LogError } from "../../../tlog/log-error.ts";

/** The exit codes of `rampart log`, for scripts. */
export const exitCode = {
  /** The certificate is not in the log. */
  absent: 3,
  /** The log contradicts itself, its signature or what is known of it. */
  inconsistent: 4,
  /** `follow` has findings. */
  findings: 5,
} as const;

/** Runs work on a log. What a log must not be ends with an exit code of its own. */
export async function judgingLog<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LogError) {
      throw new OperatorError(`the log does not hold: ${error.message}`, {
        exitCode: exitCode.inconsistent,
      });
    }
    if (error instanceof FetchError) throw new OperatorError(`the log: ${error.message}`);
    throw error;
  }
}
