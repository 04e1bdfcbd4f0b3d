import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { deployedEnvironment } from "../../dev/package/deployed-environment.ts";
import { nodeFlags } from "../../dev/package/node-flags.ts";
import { connectInspector, type Inspector } from "./inspector.ts";
import type { Sample } from "./verdict.ts";

const commandLine = join(import.meta.dirname, "../../src/cli/main.ts");

/** As deploy/ has them, with an inspector beside. */
const flags = [...nodeFlags, "--inspect=127.0.0.1:0"];

/** `rampart serve` or `rampart gateway` as an operator starts it. */
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
  const child = spawn(process.execPath, [...flags, commandLine, ...words], {
    env: { ...process.env, ...deployedEnvironment, ...secrets },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const kill = (): boolean => child.kill("SIGKILL");
  process.once("exit", kill);
  const { ports, inspectorUrl } = await listening(child);
  const inspector = await connectInspector(inspectorUrl);
  return {
    port: ports.get("gRPC") ?? 0,
    plaintextPort: ports.get("plaintext") ?? 0,
    monitoringPort: ports.get("monitoring") ?? 0,
    sample: () => sampleOf(child, inspector),
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

interface Listening {
  readonly ports: ReadonlyMap<string, number>;
  readonly inspectorUrl: string;
}

/** Reads the log until the program has told every port, that of callers last. */
function listening(child: ChildProcess): Promise<Listening> {
  const ports = new Map<string, number>();
  const lines: string[] = [];
  let inspectorUrl = "";
  return new Promise((resolve, reject) => {
    child.once("exit", () => reject(new Error(`the program ended:\n${lines.join("\n")}`)));
    for (const stream of [child.stdout, child.stderr]) {
      if (!stream) continue;
      createInterface(stream).on("line", (line) => {
        if (ports.get("gRPC") === undefined) lines.push(line);
        inspectorUrl ||= /Debugger listening on (ws:\S+)/.exec(line)?.[1] ?? "";
        const [, name = "", port] = /"(\w+) on [^"]*:(\d+)"/.exec(line) ?? [];
        if (port === undefined) return;
        ports.set(name, Number(port));
        if (name === "gRPC") resolve({ ports, inspectorUrl });
      });
    }
  });
}

async function sampleOf(
  { pid }: ChildProcess,
  inspector: Inspector,
): Promise<Omit<Sample, "isQuiet">> {
  const heap = await inspector.heapMebibytes();
  const resources = await inspector.activeResources();
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const mebibytes = (name: string): number =>
    Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024;
  const descriptors = readdirSync(`/proc/${pid}/fd`).length;
  const [memory, peak] = [mebibytes("VmRSS"), mebibytes("VmHWM")];
  return { memory, peak, heap, descriptors, resources };
}
