import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { programEnvironment } from "./environment.ts";

/** How a program ended, and all that it said. */
export interface Ended {
  /** -1 when a signal ended it. */
  readonly exitCode: number;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program in a process of its own, which does not outlive this one. */
export interface Child {
  readonly process: ChildProcessByStdio<Writable, Readable, Readable>;
  /** The lines of both outputs so far. */
  readonly lines: readonly string[];
  /** Calls back with each line of its standard output. */
  readonly onLine: (listener: (line: string) => void) => void;
  /** Sends it a signal, such as one that stops it for a while. */
  readonly send: (signal: NodeJS.Signals) => void;
  /** Resolves when it has ended and nobody else writes to its outputs. Rejects if it cannot be started. */
  readonly ended: Promise<Ended>;
  /** Ends it, and kills it if it does not end. @returns Its exit code, or -1 when a signal ended it. */
  readonly end: (signal?: NodeJS.Signals) => Promise<number>;
}

/** What a program gets besides its arguments. */
export interface ChildOptions {
  readonly input?: string | Uint8Array;
  readonly folder?: string | undefined;
  /** Variables besides what every program of a test has. */
  readonly environment?: NodeJS.ProcessEnv | undefined;
  /** A file for its standard error. */
  readonly logFile?: string;
  /** The user and the group that it runs as, in place of the test's. */
  readonly user?: number | undefined;
  /** Whether it leads a process group, which a signal then reaches as a whole, as Ctrl-C does. */
  readonly isGroup?: boolean;
}

/** How long a program may take to end before it is killed. */
const graceMilliseconds = 40_000;

const living = new Set<Child>();

process.once("exit", () => {
  for (const child of living) child.send("SIGKILL");
});

export function startChild(
  program: string,
  values: readonly string[],
  { input = "", folder, environment, logFile, user, isGroup = false }: ChildOptions = {},
): Child {
  const child = spawn(program, values, {
    cwd: folder,
    env: programEnvironment(environment),
    detached: isGroup,
    ...(user !== undefined && { uid: user, gid: user }),
  });
  // A program that does not read its whole input reports the fault itself.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const lines: string[] = [];
  const [stdout, stderr] = [child.stdout, child.stderr].map(collect);
  const [reading] = [child.stdout, child.stderr].map((output) =>
    createInterface(output).on("line", (line) => lines.push(line)),
  );
  if (logFile !== undefined) child.stderr.pipe(createWriteStream(logFile, { flags: "a" }));
  const exited = new Promise<number>((resolve) => {
    child.once("error", () => resolve(-1));
    child.once("exit", (exitCode) => {
      living.delete(started);
      resolve(exitCode ?? -1);
    });
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (exitCode, signal) => {
      resolve({
        exitCode: exitCode ?? -1,
        signal,
        stdout: stdout?.() ?? "",
        stderr: stderr?.() ?? "",
      });
    });
  });
  // Not everybody who starts a program waits for its end.
  ended.catch(() => {});
  const started: Child = {
    process: child,
    lines,
    onLine: (listener) => void reading?.on("line", listener),
    send: (signal) => {
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      if (isGroup) process.kill(-child.pid, signal);
      else child.kill(signal);
    },
    ended,
    end: async (signal = "SIGTERM") => {
      started.send(signal);
      const timer = setTimeout(() => started.send("SIGKILL"), graceMilliseconds);
      const exitCode = await exited;
      clearTimeout(timer);
      return exitCode;
    },
  };
  living.add(started);
  return started;
}

/** @returns The text of an output until now. */
function collect(output: Readable): () => string {
  let text = "";
  output.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  return () => text;
}

export interface RunOptions extends ChildOptions {
  /** When it is killed; by default after a minute. */
  readonly timeoutSeconds?: number;
}

/** Runs a program to its end. Rejects only when it cannot be started. */
export async function run(
  program: string,
  values: readonly string[],
  { timeoutSeconds = 60, ...options }: RunOptions = {},
): Promise<Ended> {
  const child = startChild(program, values, options);
  const timer = setTimeout(() => child.send("SIGKILL"), timeoutSeconds * 1000).unref();
  return child.ended.finally(() => clearTimeout(timer));
}

/** Runs a program that must succeed. @returns Its standard output. */
export async function runWell(
  program: string,
  values: readonly string[],
  options?: RunOptions,
): Promise<string> {
  const { exitCode, stdout, stderr } = await run(program, values, options);
  if (exitCode === 0) return stdout;
  const words = (stderr || stdout).trim().split("\n").slice(-3).join(" / ");
  throw new Error(`${program.split("/").at(-1)} ended with ${exitCode}: ${words}`);
}
