import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

/** `npm start`, when it has said everything. */
export interface StartedDevelopment {
  readonly lines: readonly string[];
  /** Ends it as Ctrl-C does. @returns The exit code that its user sees, when no process of it is left. */
  readonly interrupt: () => Promise<number | null>;
}

/** Types `npm start` in a clone, and waits until it tells how it ends. @throws Error with all lines if it ends before. */
export async function startDevelopment(folder: string): Promise<StartedDevelopment> {
  // Ctrl-C goes to all processes of a terminal's group, and this one has a group of its own.
  const child = spawn("npm", ["start"], {
    cwd: folder,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "close");
  const lines: string[] = [];
  const said = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on("line", (line) => {
        lines.push(line);
        if (line.includes("Ctrl-C ends everything")) resolve();
      });
    }
  });
  await Promise.race([said, ended]);
  const { pid, exitCode } = child;
  if (pid === undefined || exitCode !== null) {
    throw new Error(`npm start ended with ${exitCode}:\n${lines.join("\n")}`);
  }
  const interrupt = async (): Promise<number | null> => {
    process.kill(-pid, "SIGINT");
    await ended;
    // What has ended is there until its parent, by then the machine's first process, takes note of it.
    for (let i = 0; i < 50 && isAlive(-pid); i++) await sleep(100);
    if (isAlive(-pid)) throw new Error("a process of npm start is left");
    return child.exitCode;
  };
  return { lines, interrupt };
}

/** Whether there is a process of this id, or of this group if the id is negative. */
function isAlive(id: number): boolean {
  try {
    return process.kill(id, 0);
  } catch {
    return false;
  }
}
