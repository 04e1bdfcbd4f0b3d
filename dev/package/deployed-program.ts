import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { deployedEnvironment } from "./deployed-environment.ts";
import { nodeFlags } from "./node-flags.ts";

const commandLine = join(import.meta.dirname, "../../src/cli/main.ts");

/** A program of this repository as an operator starts it, which accepts callers. */
interface DeployedProgram {
  readonly child: ChildProcess;
  /** By the names in its log; 0 for a port that it does not have. */
  readonly portOf: (name: string) => number;
  readonly memoryMebibytes: (field: "VmRSS" | "VmHWM") => number;
}

interface Beside {
  /** Flags of Node besides those of a deployment. */
  readonly flags?: readonly string[];
  readonly onLine?: (line: string) => void;
}

/** Starts `rampart` with the heap and the environment of a deployment, and waits for the port of callers, its last. */
export async function startDeployed(
  words: readonly string[],
  secrets: Readonly<Record<string, string>>,
  { flags = [], onLine = () => {} }: Beside = {},
): Promise<DeployedProgram> {
  const child = spawn(process.execPath, [...nodeFlags, ...flags, commandLine, ...words], {
    env: { ...process.env, ...deployedEnvironment, ...secrets },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ports = new Map<string, number>();
  const lines: string[] = [];
  await new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error(`the program ended:\n${lines.join("\n")}`)));
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on("line", (line) => {
        if (!ports.has("gRPC")) lines.push(line);
        onLine(line);
        const [, name = "", port] = /"(\w+) on [^"]*:(\d+)"/.exec(line) ?? [];
        if (port !== undefined) ports.set(name, Number(port));
        if (name === "gRPC") resolve();
      });
    }
  });
  return {
    child,
    portOf: (name) => ports.get(name) ?? 0,
    memoryMebibytes: (field) => memoryMebibytes(child.pid, field),
  };
}

/** The resident memory of a process now, or its peak, in MiB. */
export function memoryMebibytes(pid: number | undefined, field: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024;
}
