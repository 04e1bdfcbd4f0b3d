import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";

/** A program under test, whose output goes to a file. */
export interface Child {
  /** Calls back with each line of its standard output. */
  onLine(listener: (line: string) => void): void;
  /** Sends it a signal, such as one that stops it for a while. */
  send(signal: NodeJS.Signals): void;
  /** Ends it. @returns Its exit code, or -1 when a signal ended it. */
  end(signal?: NodeJS.Signals): Promise<number>;
}

/** The arguments and the environment of a program under test. */
export interface ChildOptions {
  readonly logFile: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly folder?: string;
}

const living = new Set<ChildProcess>();

process.once("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

/** Kills the child when this process exits. */
export function startChild(
  command: string,
  values: readonly string[],
  { logFile, env = {}, folder = "." }: ChildOptions,
): Child {
  const child = spawn(command, values, {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const log = createWriteStream(logFile, { flags: "a" });
  child.stderr.pipe(log);
  const lines = createInterface(child.stdout);
  living.add(child);
  child.on("exit", () => living.delete(child));
  return {
    onLine: (listener) => void lines.on("line", listener),
    send: (signal) => void child.kill(signal),
    end: (signal = "SIGTERM") => endChild(child, signal),
  };
}

async function endChild(child: ChildProcess, signal: NodeJS.Signals): Promise<number> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, "exit");
    child.kill(signal);
    const impatience = setTimeout(() => child.kill("SIGKILL"), 10_000);
    await ended;
    clearTimeout(impatience);
  }
  return child.exitCode ?? -1;
}
