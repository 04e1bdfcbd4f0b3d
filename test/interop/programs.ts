import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";

/** The exit code and the output of a program. */
export interface Ended {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: string | Uint8Array;
  readonly folder?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly timeoutSeconds?: number;
}

/** Runs a program to its end. Rejects only when it cannot be started. */
export async function run(
  program: string,
  values: readonly string[],
  { input = "", folder, environment = {}, timeoutSeconds = 60 }: RunOptions = {},
): Promise<Ended> {
  const child = spawn(program, values, {
    ...(folder !== undefined && { cwd: folder }),
    env: { ...process.env, ...environment },
  });
  const patience = setTimeout(() => child.kill("SIGKILL"), timeoutSeconds * 1000).unref();
  const ended = once(child, "close");
  // A program that does not read its whole input reports the fault itself.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  clearTimeout(patience);
  const exitCode = child.exitCode ?? -1;
  return { exitCode, stdout, stderr };
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
