#!/usr/bin/env node
import { CommanderError } from "commander";
import { OperatorError } from "../foundation/operator-error.ts";
import { rampart } from "./rampart.ts";
import { exitCodes } from "./terminal/exit-codes.ts";
import { failuresOf } from "./terminal/operator-error.ts";
import { endingWithOutput } from "./terminal/output.ts";
import { explainingSignals } from "./terminal/signals.ts";
import { styled } from "./terminal/style.ts";

/** The programs that read their configuration again while they run. */
const reloading: ReadonlySet<string> = new Set(["serve", "gateway", "distribute"]);

/** Runs one command. The executable is a CommonJS module, which cannot wait for a promise at its top level. */
async function main(): Promise<void> {
  // For as long as neither a verb nor a program says what a signal does to it.
  explainingSignals();
  endingWithOutput(process.stdout);
  const [, , noun = ""] = process.argv;
  // It has a program read its configuration again, and must not end one that has only begun.
  if (reloading.has(noun)) process.on("SIGHUP", () => {});
  try {
    await (await rampart(noun, () => new Date())).parseAsync();
  } catch (error) {
    process.exitCode = Math.max(...failuresOf(error).map(exitCodeOf));
  }
}

/** Commander prints its own errors. An OperatorError is shown as a sentence, a defect with its stack. */
function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage;
  const isOperators = error instanceof OperatorError;
  console.error(isOperators ? sentence(error) : error);
  return isOperators ? error.exitCode : exitCodes.failed;
}

const sentence = ({ message }: OperatorError): string =>
  `${styled("bad", "rampart:", process.stderr)} ${message}`;

void main();
