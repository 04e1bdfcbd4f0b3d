import { once } from "node:events";
import { readdirSync } from "node:fs";
import { startDeployed } from "../../dev/package/deployed-program.ts";
import { connectInspector } from "./inspector.ts";
import type { Sample } from "./verdict.ts";

/** `rampart serve` or `rampart gateway` as an operator starts it, with an inspector beside. */
export interface Program {
  readonly port: number;
  readonly plaintextPort: number;
  readonly monitoringPort: number;
  readonly sample: () => Promise<Omit<Sample, "isQuiet">>;
  /** How it has ended by itself; `undefined` while it runs. */
  readonly endedWith: () => string | undefined;
  /** Tells it to end. @returns Whether it did; otherwise it is killed. */
  readonly end: () => Promise<boolean>;
}

/** The grace of a program for calls under way, and a while. */
const endMilliseconds = 40_000;

export async function startProgram(
  words: readonly string[],
  secrets: Readonly<Record<string, string>>,
): Promise<Program> {
  let inspectorUrl = "";
  const { child, portOf, memoryMebibytes } = await startDeployed(words, secrets, {
    flags: ["--inspect=127.0.0.1:0"],
    onLine: (line) => {
      inspectorUrl ||= /Debugger listening on (ws:\S+)/.exec(line)?.[1] ?? "";
    },
  });
  const kill = (): boolean => child.kill("SIGKILL");
  process.once("exit", kill);
  const inspector = await connectInspector(inspectorUrl);
  const sample = async (): Promise<Omit<Sample, "isQuiet">> => ({
    heap: await inspector.heapMebibytes(),
    resources: await inspector.activeResources(),
    descriptors: readdirSync(`/proc/${child.pid}/fd`).length,
    memory: memoryMebibytes("VmRSS"),
    peak: memoryMebibytes("VmHWM"),
  });
  return {
    port: portOf("gRPC"),
    plaintextPort: portOf("plaintext"),
    monitoringPort: portOf("monitoring"),
    sample,
    endedWith: () =>
      child.signalCode ?? (child.exitCode === null ? undefined : `${child.exitCode}`),
    end: async () => {
      process.off("exit", kill);
      inspector.close();
      if (child.exitCode !== null || child.signalCode !== null) return true;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      const timer = setTimeout(kill, endMilliseconds);
      await ended;
      clearTimeout(timer);
      return child.signalCode !== "SIGKILL";
    },
  };
}
