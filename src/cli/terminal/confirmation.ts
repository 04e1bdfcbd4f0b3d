import { OperatorError } from "../../foundation/operator-error.ts";
import { usageError } from "./exit-codes.ts";
import { prompt, type TerminalStreams } from "./prompt.ts";

/** The option that confirms in advance. */
export interface ConfirmationOptions {
  readonly yes?: boolean;
}

/** The terminal that a question is asked on. */
export interface Terminal extends TerminalStreams {
  readonly input: TerminalStreams["input"] & { readonly isTTY?: boolean };
}

/**
 * Asks the operator before a change that cannot be undone.
 *
 * @param question Its last line is what the operator answers.
 * @throws OperatorError when the answer is no, or there is no terminal to ask on.
 */
export async function confirm(
  question: string,
  { yes }: ConfirmationOptions,
  { input, output }: Terminal = { input: process.stdin, output: process.stderr },
): Promise<void> {
  if (yes) return;
  if (!input.isTTY) throw usageError(`${question}\nThere is no terminal to ask on: add --yes`);
  const start = question.lastIndexOf("\n") + 1;
  output.write(question.slice(0, start));
  const answer = await prompt(`${question.slice(start)} [y/N] `, { input, output });
  if (answer === undefined) output.write("\n");
  if (!/^y(es)?$/i.test(answer?.trim() ?? "")) throw new OperatorError("nothing was changed");
}
