import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

/** A reader's terminals: in each a shell, in which every block finds the variables of those before it. */
export interface Terminal {
  /** Types a block and waits for its end. @returns What it printed. @throws Error if a command of it fails. */
  type(text: string): Promise<string>;
  /** Types a block into another terminal, and waits until that shows a text. @returns What it printed by then. */
  leaveOpen(text: string, until: RegExp): Promise<string>;
  /** Opens another terminal in the same folder, which has no variable of a block. */
  openAnother(): Promise<void>;
  end(): Promise<void>;
}

const blockSeconds = 300;

export async function openTerminal(
  folder: string,
  environment: Readonly<Record<string, string>>,
): Promise<Terminal> {
  const state = await lastingFolder();
  const shells = [startShell(folder, environment)];
  const current = (): Shell => shells.at(-1) ?? startShell(folder, environment);
  let count = 0;
  const place = async (text: string): Promise<{ block: string; output: string }> => {
    const block = join(state, `block-${++count}`);
    await writeFile(block, text);
    return { block, output: `${block}.out` };
  };
  const type = async (text: string): Promise<string> => {
    const { shell, lines } = current();
    const { block, output } = await place(text);
    shell.stdin.write(`. ${block} < /dev/null > ${output} 2>&1\necho typed\n`);
    const patience = setTimeout(() => shell.kill("SIGKILL"), blockSeconds * 1000);
    const { done } = await lines.next();
    clearTimeout(patience);
    const printed = await readFile(output, "utf8");
    if (done) throw new Error(`a command failed:\n${tailOf(printed)}`);
    return printed;
  };
  return {
    type,
    leaveOpen: async (text, until) => {
      const { block, output } = await place(text);
      await writeFile(output, "");
      current().shell.stdin.write(
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
    openAnother: async () => {
      shells.push(startShell((await type("pwd")).trim(), environment));
    },
    end: async () => {
      for (const { shell, ended } of shells) {
        killGroup(shell.pid, "SIGTERM");
        shell.stdin.end();
        await ended;
      }
      await sleep(1000);
      for (const { shell } of shells) killGroup(shell.pid, "SIGKILL");
    },
  };
}

type Shell = ReturnType<typeof startShell>;

function startShell(folder: string, environment: Readonly<Record<string, string>>) {
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
  return { shell, ended, lines };
}

const tailOf = (printed: string): string => printed.trimEnd().split("\n").slice(-15).join("\n");

function killGroup(id: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (id !== undefined) process.kill(-id, signal);
  } catch (error) {
    // Nobody is left.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
