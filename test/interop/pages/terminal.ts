import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

/** A reader's terminal: one shell, in which every block finds the variables of those before it. */
export interface Terminal {
  /** Types a block and waits for its end. @returns What it printed. @throws Error if a command of it fails. */
  type(text: string): Promise<string>;
  /** Types a block into another terminal, and waits until that shows a text. @returns What it printed by then. */
  leaveOpen(text: string, until: RegExp): Promise<string>;
  end(): Promise<void>;
}

const blockSeconds = 300;

export async function openTerminal(
  folder: string,
  environment: Readonly<Record<string, string>>,
): Promise<Terminal> {
  const state = await lastingFolder();
  // A group of its own, so that what a page has started ends with it.
  const shell = spawn("bash", ["--norc", "-eu"], {
    cwd: folder,
    env: environment,
    stdio: ["pipe", "pipe", "ignore"],
    detached: true,
  });
  const ended = once(shell, "exit");
  shell.stdin.on("error", () => {});
  const lines = createInterface(shell.stdout)[Symbol.asyncIterator]();
  let count = 0;
  const place = async (text: string): Promise<{ block: string; output: string }> => {
    const block = join(state, `block-${++count}`);
    await writeFile(block, text);
    return { block, output: `${block}.out` };
  };
  return {
    type: async (text) => {
      const { block, output } = await place(text);
      shell.stdin.write(`. ${block} < /dev/null > ${output} 2>&1\necho typed\n`);
      const patience = setTimeout(() => shell.kill("SIGKILL"), blockSeconds * 1000);
      const { done } = await lines.next();
      clearTimeout(patience);
      const printed = await readFile(output, "utf8");
      if (done) throw new Error(`a command failed:\n${tailOf(printed)}`);
      return printed;
    },
    leaveOpen: async (text, until) => {
      const { block, output } = await place(text);
      await writeFile(output, "");
      shell.stdin.write(
        `(trap 'echo "[it ended]"' EXIT; . ${block}) < /dev/null > ${output} 2>&1 &\n`,
      );
      for (let waited = 0; waited < blockSeconds * 5; waited++) {
        const printed = await readFile(output, "utf8");
        if (until.test(printed)) return printed;
        if (printed.endsWith("[it ended]\n")) break;
        await sleep(200);
      }
      throw new Error(`${until} did not come:\n${tailOf(await readFile(output, "utf8"))}`);
    },
    end: async () => {
      killGroup(shell.pid, "SIGTERM");
      shell.stdin.end();
      await ended;
      await sleep(1000);
      killGroup(shell.pid, "SIGKILL");
    },
  };
}

const tailOf = (printed: string): string => printed.trimEnd().split("\n").slice(-15).join("\n");

/** Signals a shell and all that it has started. */
function killGroup(id: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (id !== undefined) process.kill(-id, signal);
  } catch (error) {
    // Nobody is left.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
