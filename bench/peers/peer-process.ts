import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { childProcesses, cpuMicroseconds } from "../measurement/process-cpu.ts";

/** The processes of a CA. */
export interface PeerProcess {
  /** CPU that they have used so far, in microseconds. */
  readonly cpu: () => number;
  /** Repeats a first call until it succeeds. @throws Error if the process ends, or after two minutes. */
  readonly until: <T>(call: () => Promise<T>) => Promise<T>;
  readonly end: () => Promise<void>;
}

/** A program, and the folder where it works and writes its log. */
interface PeerProgram {
  readonly program: string;
  readonly values: readonly string[];
  readonly folder: string;
  readonly env?: NodeJS.ProcessEnv;
}

const longestStartSeconds = 120;

export function startPeerProcess({ program, values, folder, env = {} }: PeerProgram): PeerProcess {
  const logFile = join(folder, "log");
  const log = openSync(logFile, "a");
  const child = spawn(program, values, {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  process.once("exit", () => child.kill("SIGKILL"));
  const pid = child.pid ?? 0;
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  return {
    cpu: () =>
      [pid, ...childProcesses(pid, "")].reduce((sum, each) => sum + cpuMicroseconds(each), 0),
    until: async (call) => {
      const end = performance.now() + 1000 * longestStartSeconds;
      for (;;) {
        try {
          return await call();
        } catch (cause) {
          if (hasEnded() || performance.now() > end) {
            const lines = readFileSync(logFile, "utf8").slice(-1000);
            throw new Error(`${program} does not issue: ${lines}`, { cause });
          }
          await new Promise((resolve) => setTimeout(resolve, 250));
        }
      }
    },
    end: async () => {
      if (hasEnded()) return;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    },
  };
}
