import { OperatorError } from "../../foundation/operator-error.ts";
import { prompt } from "./prompt.ts";

/** The option that confirms in advance. */
export interface ConfirmationOptions {
  readonly yes?: boolean;
}

/**
 * Asks the operator before a change that cannot be undone.
 *
 * @throws OperatorError when the answer is no, or there is no terminal to ask on.
 */
export async function confirm(question: string, { yes }: ConfirmationOptions): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY)
    throw new OperatorError(`${question}\nThere is no terminal to ask on: add --yes`);
  const streams = { input: process.stdin, output: process.stderr };
  const answer = await prompt(`${question} [y/N] `, streams);
  if (answer === undefined) process.stderr.write("\n");
  if (!/^y(es)?$/i.test(answer?.trim() ?? "")) throw new OperatorError("nothing was changed");
}
