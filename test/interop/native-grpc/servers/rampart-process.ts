import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** The program behind `rampart`. */
export const commandLine: string = join(import.meta.dirname, "../../../../src/cli/main.ts");
const startSeconds = 30;

/** `rampart serve` or `rampart gateway` as an operator starts it, in a process of its own. */
export interface RampartProcess {
  /** `host:port` where RPCs are answered. */
  readonly address: string;
  /** `host:port` for monitoring. */
  readonly monitoringAddress: string;
  /** Its whole output. */
  readonly lines: readonly string[];
  /** Ends it as Kubernetes does. @returns How it ended. */
  readonly end: () => Promise<string>;
  /** Ends it as a machine that fails. @returns How it ended. */
  readonly kill: () => Promise<string>;
}

export async function startRampart(
  verb: "serve" | "gateway",
  configurationFile: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<RampartProcess> {
  const values = [commandLine, verb, "--config", configurationFile];
  const child = spawn(process.execPath, values, {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "exit").then(([code, signal]) => `${signal ?? `exit code ${code}`}`);
  const kill = (): boolean => child.kill("SIGKILL");
  process.once("exit", kill);
  const lines: string[] = [];
  const endBy = (signal: "SIGTERM" | "SIGKILL") => (): Promise<string> => {
    process.off("exit", kill);
    child.kill(signal);
    return ended;
  };
  const end = endBy("SIGTERM");
  const listening = new Promise<string>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on("line", (line) => {
        lines.push(line);
        if (addressIn([line], "gRPC")) resolve("");
      });
    }
  });
  const stop = new AbortController();
  const tooLate = new Promise<string>((resolve) => {
    const timer = setTimeout(() => resolve("does not listen"), startSeconds * 1000);
    stop.signal.addEventListener("abort", () => clearTimeout(timer));
  });
  const fault = await Promise.race([listening, ended, tooLate]);
  stop.abort();
  const address = addressIn(lines, "gRPC");
  const monitoringAddress = addressIn(lines, "monitoring");
  if (fault === "" && address && monitoringAddress) {
    return { address, monitoringAddress, lines, end, kill: endBy("SIGKILL") };
  }
  await end();
  throw new Error(`rampart ${verb}: ${fault}\n${lines.join("\n")}`);
}

/** The address in the log line `listening`. */
function addressIn(lines: readonly string[], what: string): string | undefined {
  const said = new RegExp(`"event":"listening".*"${what} on ([^"]+)"`);
  return lines.map((line) => said.exec(line)?.[1]).find((address) => address !== undefined);
}
