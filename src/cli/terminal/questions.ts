import { OperatorError } from "../../foundation/errors.ts";
import { usageError } from "./command-line.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Asks the operator before a change that cannot be undone.
 * @param question Its last line is what the operator answers.
 * @throws OperatorError if the answer is no, and with the exit code `usage` if there is no terminal to ask on.
 */
export async function confirm(terminal: Terminal, question: string): Promise<void> {
  if (!terminal.isAttended) {
    throw usageError(`${question}\nThere is no terminal to ask on: add --yes`);
  }
  const answer = await terminal.ask(`${question} [y/N] `);
  if (!/^y(es)?$/i.test(answer?.trim() ?? "")) throw new OperatorError("nothing was changed");
}

const variable = "RAMPART_PASSPHRASE";
const shortestPassphrase = 12;

/**
 * Reads the passphrase of a backup from the environment, or asks for it without echo.
 * @throws OperatorError if there is none, or a new one has fewer than 12 characters.
 */
export async function readPassphrase(
  terminal: Terminal,
  { isNew }: { readonly isNew: boolean },
): Promise<string> {
  const passphrase = terminal.environment[variable] ?? (await typedPassphrase(terminal, isNew));
  if (isNew && passphrase.length < shortestPassphrase) {
    throw new OperatorError(`a passphrase needs ${shortestPassphrase} characters or more`);
  }
  return passphrase;
}

async function typedPassphrase(terminal: Terminal, isNew: boolean): Promise<string> {
  if (!terminal.isAttended) {
    throw new OperatorError(`there is no terminal to type a passphrase on: set ${variable}`);
  }
  const passphrase = await typed(terminal, "Passphrase: ");
  if (isNew && (await typed(terminal, "Repeat it: ")) !== passphrase) {
    throw new OperatorError("the two passphrases differ");
  }
  return passphrase;
}

async function typed(terminal: Terminal, question: string): Promise<string> {
  const answer = await terminal.askSecretly(question);
  if (answer === undefined) throw new OperatorError("no passphrase was typed");
  return answer;
}
