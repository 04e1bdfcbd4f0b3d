import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { stringify } from "smol-toml";
import { onTestFinished } from "vitest";
import { compileCache } from "./environment.ts";
import { rampartProgram } from "./rampart-process.ts";

/** `rampart serve` in its own process. It ends with the test. */
export interface ServeProcess {
  readonly child: ChildProcess;
  readonly port: number;
  readonly plaintextPort: number;
  readonly monitoringPort: number;
}

/** A `rampart.toml` with today as the inception date, and free ports. */
export function serveToml(store: string, values: Readonly<Record<string, unknown>>): string {
  return stringify({
    STORE_DIRECTORY: store,
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    ...values,
  });
}

/**
 * Starts it as an operator does, and waits until it has logged its ports.
 *
 * @param descriptors The most files and connections that it may have open. With them its errors can be read.
 */
export async function startServeProcess(
  config: string,
  kek: string,
  secrets: Readonly<Record<string, string>> = {},
  descriptors?: number,
): Promise<ServeProcess> {
  const { PATH } = process.env;
  const words = [process.execPath, rampartProgram, "serve", "--config", config];
  const limited = `ulimit -n ${descriptors ?? "$(ulimit -n)"} && exec "$@"`;
  const child = spawn("sh", ["-c", limited, "sh", ...words], {
    env: { PATH, KEK: kek, ...secrets, ...compileCache },
    stdio: ["ignore", "pipe", "pipe"],
  });
  if (descriptors === undefined) child.stderr.pipe(process.stderr);
  onTestFinished(() => void child.kill("SIGKILL"));
  const ports: Record<string, number> = {};
  for await (const line of createInterface(child.stdout)) {
    const [, name = "", port] = /"(\w+) on [^"]*:(\d+)"/.exec(line) ?? [];
    ports[name] = Number(port);
    if (name === "gRPC") break;
  }
  child.stdout.resume();
  const { gRPC = 0, plaintext = 0, monitoring = 0 } = ports;
  return { child, port: gRPC, plaintextPort: plaintext, monitoringPort: monitoring };
}
