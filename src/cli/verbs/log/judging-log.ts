import type { Command } from "commander";
import { OperatorError } from "../../../foundation/errors.ts";
import { FetchError } from "../../../foundation/fetch.ts";
import { LogError } from "../../../tlog/log-error.ts";
import { addExitCodes, exitCodes, type GradedOutcomes } from "../../terminal/exit-codes.ts";

/** Tells in the help of a verb that reads a log when it ends with a graded exit code. */
export const addLogExitCodes = (command: Command, graded: GradedOutcomes = {}): Command =>
  addExitCodes(command, {
    ...graded,
    broken: "The log contradicts itself, its signature or what is known of it.",
  });

/** Runs work on a log. What a log must not be ends with an exit code of its own. */
export async function judgingLog<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LogError) {
      throw new OperatorError(`the log does not hold: ${error.message}`, {
        exitCode: exitCodes.broken,
      });
    }
    if (error instanceof FetchError) throw new OperatorError(`the log: ${error.message}`);
    throw error;
  }
}

/** @throws OperatorError with the exit code of an answer that a person looks at. */
export function refuseAbsent(sentence: string): never {
  throw new OperatorError(sentence, { exitCode: exitCodes.attention });
}
