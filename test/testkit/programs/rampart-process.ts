import { type ChildProcessByStdio, spawn } from "node:child_process";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { onTestFinished } from "vitest";
import { randomKek } from "../ca/running-ca.ts";
import { compileCache } from "./environment.ts";

/** The file that `rampart` runs from. */
export const rampartProgram: string = join(import.meta.dirname, "../../../src/cli/main.ts");

/** A process without an input, both of whose outputs can be read. */
export type RampartProcess = ChildProcessByStdio<null, Readable, Readable>;

/** Starts `rampart` in its own process, with a KEK of its own. The process ends with the test. */
export function startRampart(
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  folder?: string,
): RampartProcess {
  const { PATH } = process.env;
  const child = spawn(process.execPath, [rampartProgram, ...words], {
    cwd: folder,
    env: { PATH, KEK: randomKek("k1"), ...compileCache, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  // The first of several processes ends the others, if it is asked.
  const ending = words.includes("--processes") ? "SIGTERM" : "SIGKILL";
  onTestFinished(() => void child.kill(ending));
  return child;
}

/** Collects both outputs of a process. @returns The text until now. */
export function outputOf({ stdout, stderr }: RampartProcess): () => string {
  let text = "";
  for (const stream of [stdout, stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
  }
  return () => text;
}
