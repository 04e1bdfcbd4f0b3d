import { setTimeout as sleep } from "node:timers/promises";
import { type ChildOptions, startChild } from "./child-process.ts";

/** `npm start`, when it has said everything. */
interface StartedDevelopment {
  readonly lines: readonly string[];
  /** Ends it as Ctrl-C does. @returns The exit code that its user sees, when no process of it is left. */
  readonly interrupt: () => Promise<number>;
}

/** Types `npm start`, and waits until it tells how it ends. @throws Error with all lines if it ends before. */
export async function startDevelopment(
  folder: string,
  environment?: ChildOptions["environment"],
): Promise<StartedDevelopment> {
  const child = startChild("npm", ["start"], { folder, environment, isGroup: true });
  const { lines, ended, process: npm } = child;
  const said = new Promise<undefined>((resolve) => {
    child.onLine((line) => line.includes("Ctrl-C ends everything") && resolve(undefined));
  });
  const early = await Promise.race([said, ended]);
  if (early) throw new Error(`npm start ended with ${early.exitCode}:\n${lines.join("\n")}`);
  const group = -Number(npm.pid);
  const interrupt = async (): Promise<number> => {
    child.send("SIGINT");
    const { exitCode } = await ended;
    // What has ended is there until its parent, by then the machine's first process, takes note of it.
    for (let i = 0; i < 50 && isAlive(group); i++) await sleep(100);
    if (isAlive(group)) throw new Error("a process of npm start is left");
    return exitCode;
  };
  return { lines, interrupt };
}

/** Whether there is a process of this group, a negative number. */
function isAlive(group: number): boolean {
  try {
    return process.kill(group, 0);
  } catch {
    return false;
  }
}
