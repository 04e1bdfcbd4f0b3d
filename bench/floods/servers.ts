import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startDeployed } from "../../dev/package/deployed-program.ts";
import type { Cluster, Workload } from "../workload.ts";

/** A program of this repository as an operator starts it. */
export interface Server {
  readonly port: number;
  readonly plaintextPort: number;
  readonly monitoringPort: number;
  /** Its memory now, in MiB. */
  readonly memory: () => number;
  /** CPU time of its event loop so far. */
  readonly cpuMilliseconds: () => number;
  /** For how long its event loop was ready, and other programs had the processors. */
  readonly waitMilliseconds: () => number;
  /** The CA behind a gateway, whose calls wait for both. */
  readonly upstream?: Server;
  readonly hasEnded: () => boolean;
  readonly end: () => Promise<void>;
}

/** What the configuration of `serve` has besides what every row needs. */
export interface Extras {
  readonly keys?: string;
  /** Whole tables of `ISSUERS`. */
  readonly issuers?: string;
  readonly secrets?: Readonly<Record<string, string>>;
}

export async function startServe(
  folder: string,
  { issuer, keySet }: Cluster,
  { keys = "", issuers = "", secrets = {} }: Extras = {},
): Promise<Server> {
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
${keys}
[[ISSUERS]]
issuer = ${JSON.stringify(issuer)}
jwks = ${table}
gateways = [{ account = "foo/httpbin", dns_names = ["gateway.test"] }]
${issuers}`,
  );
  return start(["serve", "--config", config], {
    ...secrets,
    KEK: `bench:${randomBytes(32).toString("base64")}`,
  });
}

export async function startGateway(
  folder: string,
  upstream: Server,
  { token }: Workload,
): Promise<Server> {
  await mkdir(folder, { recursive: true });
  const [config, tokenFile] = [join(folder, "gateway.toml"), join(folder, "token")];
  await writeFile(tokenFile, token);
  await writeFile(
    config,
    `UPSTREAM = "http://127.0.0.1:${upstream.plaintextPort}"
TOKEN_FILE = ${JSON.stringify(tokenFile)}
LISTEN = "127.0.0.1:0"
MONITORING_LISTEN = "127.0.0.1:0"
`,
  );
  return { ...(await start(["gateway", "--config", config], {})), upstream };
}

async function start(words: readonly string[], secrets: Record<string, string>): Promise<Server> {
  const { child, portOf, memoryMebibytes } = await startDeployed(words, secrets);
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    port: portOf("gRPC"),
    plaintextPort: portOf("plaintext"),
    monitoringPort: portOf("monitoring"),
    memory: () => memoryMebibytes("VmRSS"),
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

/** The time of the main thread on a processor, and in the queue for one, as the scheduler counts it in ns. */
function loopTimesOf({ pid }: ChildProcess): { readonly cpu: number; readonly wait: number } {
  const [cpu, wait] = readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ").map(Number);
  return { cpu: Number(cpu) / 1e6, wait: Number(wait) / 1e6 };
}
