#!/usr/bin/env node
import { CommanderError } from "commander";
import { OperatorError } from "../foundation/errors.ts";
import { followCompliancePolicy } from "../program/tls-policy.ts";
import { rampart, typedWords } from "./rampart.ts";
import { exitCodes } from "./terminal/command-line.ts";
import { endingWithOutput, failuresOf } from "./terminal/failures.ts";
import { explainingSignals } from "./terminal/signals.ts";
import { Terminal } from "./terminal/terminal.ts";

/** The programs that read their configuration again while they run. */
const reloading: ReadonlySet<string> = new Set(["serve", "gateway", "distribute", "signer"]);

/** Runs one command. The executable is a CommonJS module, which cannot wait for a promise at its top level. */
async function main(): Promise<void> {
  const terminal = new Terminal(process, () => new Date());
  // For as long as neither a verb nor a program says what a signal does to it.
  explainingSignals(terminal);
  endingWithOutput(process);
  const words = typedWords(process.argv.slice(2));
  const [noun = ""] = words;
  // It has a program read its configuration again, and must not end one that has only begun.
  if (reloading.has(noun)) process.on("SIGHUP", () => {});
  try {
    followCompliancePolicy(terminal.environment["COMPLIANCE_POLICY"]);
    await (await rampart(noun, terminal)).parseAsync(words, { from: "user" });
  } catch (error) {
    terminal.exitWith(Math.max(...failuresOf(error).map((each) => exitCodeOf(each, terminal))));
  }
}

/** Commander prints its own errors. An OperatorError is shown as a sentence, a defect with its stack. */
function exitCodeOf(error: unknown, terminal: Terminal): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage;
  if (error instanceof OperatorError) {
    terminal.complain(error.message);
    return error.exitCode;
  }
  console.error(error);
  return exitCodes.failed;
}

void main();
