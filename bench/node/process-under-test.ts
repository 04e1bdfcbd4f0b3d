import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { deployedEnvironment } from "../../dev/package/deployed-environment.ts";
import { memoryMebibytes } from "../../dev/package/deployed-program.ts";
import { fastNodeFlags } from "../../dev/package/node-flags.ts";
import { cpuMicroseconds } from "../measurement/process-cpu.ts";
import type { Answer, Command } from "./child.ts";

/** A Node process that carries out commands, with the means to read their cost. */
export interface ProcessUnderTest {
  readonly tell: (command: Command) => Promise<Answer>;
  /** CPU used so far, in microseconds. */
  readonly cpu: () => number;
  /** Its peak resident memory, in MiB. */
  readonly peakMemory: () => number;
  readonly end: () => void;
}

export function startProcess(): ProcessUnderTest {
  const program = fileURLToPath(new URL("child.ts", import.meta.url));
  // Its log lines are written, and dropped.
  const child = fork(program, {
    execArgv: [...fastNodeFlags],
    env: { ...process.env, ...deployedEnvironment },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const pid = child.pid ?? 0;
  return {
    tell: async (command) => {
      child.send(command);
      const [answer] = await once(child, "message");
      return answer as Answer;
    },
    cpu: () => cpuMicroseconds(pid),
    peakMemory: () => memoryMebibytes(pid, "VmHWM"),
    end: () => child.disconnect(),
  };
}
