import { Writable } from "node:stream";
import { OperatorError } from "../../foundation/operator-error.ts";
import { prompt } from "./prompt.ts";

const variable = "RAMPART_PASSPHRASE";
const shortestPassphrase = 12;

/** The passphrase of a backup: from the environment, or typed without echo. @throws OperatorError */
export async function readPassphrase({ isNew }: { readonly isNew: boolean }): Promise<string> {
  const fromEnvironment = process.env[variable];
  const passphrase = fromEnvironment ?? (await typedPassphrase(isNew));
  if (isNew && passphrase.length < shortestPassphrase) {
    throw new OperatorError(`a passphrase needs ${shortestPassphrase} characters or more`);
  }
  return passphrase;
}

async function typedPassphrase(isNew: boolean): Promise<string> {
  if (!process.stdin.isTTY) {
    throw new OperatorError(`there is no terminal to type a passphrase on: set ${variable}`);
  }
  const passphrase = await askWithoutEcho("Passphrase: ");
  if (isNew && (await askWithoutEcho("Repeat it: ")) !== passphrase) {
    throw new OperatorError("the two passphrases differ");
  }
  return passphrase;
}

async function askWithoutEcho(question: string): Promise<string> {
  const unseen = new Writable({ write: (_chunk, _encoding, done) => done() });
  // The prompt turns the terminal's echo off. A question before it would invite keys that show.
  const typed = prompt("", { input: process.stdin, output: unseen });
  process.stderr.write(question);
  const answer = await typed;
  process.stderr.write("\n");
  if (answer === undefined) throw new OperatorError("no passphrase was typed");
  return answer;
}
