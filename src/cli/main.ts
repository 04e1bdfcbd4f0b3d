#!/usr/bin/env node
import { runCommand, typedWords } from "./rampart.ts";
import { endingWithOutput, explainingSignals } from "./terminal/failures.ts";
import { Terminal } from "./terminal/terminal.ts";

/** The programs that read their configuration again while they run. */
const reloading: ReadonlySet<string> = new Set(["serve", "gateway", "distribute", "signer"]);

/** Runs one command. The executable is a CommonJS module, which cannot wait for a promise at its top level. */
async function main(): Promise<void> {
  const terminal = new Terminal(process, () => new Date());
  // Handles signals until a verb or a program handles them itself.
  explainingSignals(terminal);
  endingWithOutput(process);
  const words = typedWords(process.argv.slice(2));
  const [noun = ""] = words;
  // SIGHUP has these programs reload their configuration, so it must not end one that is still starting.
  if (reloading.has(noun)) process.on("SIGHUP", () => {});
  await runCommand(words, terminal);
}

void main();
