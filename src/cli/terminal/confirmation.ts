import { createInterface } from "node:readline/promises";
import { OperatorError } from "../../foundation/operator-error.ts";

/** The option that answers in advance. */
export interface ConfirmationOptions {
  readonly yes?: boolean;
}

/**
 * Asks before something that cannot be taken back.
 *
 * @throws OperatorError when the answer is no, or when there is nobody to ask.
 */
export async function confirm(question: string, { yes }: ConfirmationOptions): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY)
    throw new OperatorError(`${question}\nNobody is there to ask: add --yes`);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} [y/N] `);
    if (!/^y(es)?$/i.test(answer.trim())) throw new OperatorError("nothing was changed");
  } finally {
    terminal.close();
  }
}
