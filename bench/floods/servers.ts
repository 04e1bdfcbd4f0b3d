import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { deployedEnvironment } from "../../dev/package/deployed-environment.ts";
import { nodeFlags } from "../../dev/package/node-flags.ts";
import type { Cluster, Workload } from "../workload.ts";

/** A program of this repository as an operator starts it. */
export interface Server {
  readonly port: number;
  readonly plaintextPort: number;
  /** Its memory now, in MiB. */
  readonly memory: () => number;
  /** CPU time of its event loop so far. */
  readonly cpuMilliseconds: () => number;
  /** For how long its event loop was ready, and other programs had the processors. */
  readonly waitMilliseconds: () => number;
  readonly hasEnded: () => boolean;
  readonly end: () => Promise<void>;
}

const program = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

export async function startServe(folder: string, { issuer, keySet }: Cluster): Promise<Server> {
  await mkdir(folder, { recursive: true });
  const config = join(folder, "rampart.toml");
  const table = JSON.stringify(JSON.stringify(keySet));
  await writeFile(
    config,
    `STORE_DIRECTORY = ${JSON.stringify(join(folder, "store"))}
LISTEN = "127.0.0.1:0"
PLAINTEXT_LISTEN = "127.0.0.1:0"
MONITORING_LISTEN = "127.0.0.1:0"
PROPAGATION_INTERVAL = "4s"
INCEPTION_DATE = ${new Date().toISOString().slice(0, 10)}
[[ISSUERS]]
issuer = ${JSON.stringify(issuer)}
jwks = ${table}
gateways = [{ account = "foo/httpbin", dns_names = ["gateway.test"] }]
`,
  );
  return start(["serve", "--config", config], {
    KEK: `bench:${randomBytes(32).toString("base64")}`,
  });
}

export async function startGateway(
  folder: string,
  upstreamPort: number,
  { token }: Workload,
): Promise<Server> {
  await mkdir(folder, { recursive: true });
  const [config, tokenFile] = [join(folder, "gateway.toml"), join(folder, "token")];
  await writeFile(tokenFile, token);
  await writeFile(
    config,
    `UPSTREAM = "http://127.0.0.1:${upstreamPort}"
TOKEN_FILE = ${JSON.stringify(tokenFile)}
LISTEN = "127.0.0.1:0"
MONITORING_LISTEN = "127.0.0.1:0"
`,
  );
  return start(["gateway", "--config", config], {});
}

async function start(words: readonly string[], secrets: Record<string, string>): Promise<Server> {
  const child = spawn(process.execPath, [...nodeFlags, program, ...words], {
    env: { ...process.env, ...deployedEnvironment, ...secrets },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const { gRPC: port = 0, plaintext: plaintextPort = 0 } = await listening(child);
  return {
    port,
    plaintextPort,
    memory: () => memoryOf(child),
    cpuMilliseconds: () => (hasEnded() ? Number.NaN : loopTimesOf(child).cpu),
    waitMilliseconds: () => (hasEnded() ? 0 : loopTimesOf(child).wait),
    hasEnded,
    end: async () => {
      if (hasEnded()) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

/** The ports by their names, as the log tells them, that of callers last. */
function listening(child: ChildProcess): Promise<Readonly<Record<string, number>>> {
  const ports: Record<string, number> = {};
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
    for (const stream of [child.stdout, child.stderr]) {
      if (!stream) continue;
      createInterface(stream).on("line", (line) => {
        const [, name = "", port] = /"detail":"(\w+) on 127\.0\.0\.1:(\d+)"/.exec(line) ?? [];
        if (port === undefined) return;
        ports[name] = Number(port);
        if (name === "gRPC") resolve(ports);
      });
    }
  });
}

function memoryOf({ pid }: ChildProcess): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}

/** The time of the main thread on a processor, and in the queue for one, as the scheduler counts it in ns. */
function loopTimesOf({ pid }: ChildProcess): { readonly cpu: number; readonly wait: number } {
  const [cpu, wait] = readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ").map(Number);
  return { cpu: Number(cpu) / 1e6, wait: Number(wait) / 1e6 };
}
