import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import type { Unstable_RawConfig } from "wrangler";
import { randomKek } from "../../../testkit/configuration.ts";
import { createEdgeWorker } from "../../../testkit/programs/edge-worker.ts";
import {
  launchServer,
  runRampart,
  type ServerProcess,
} from "../../../testkit/programs/rampart-process.ts";
import { repeatedly } from "../../../testkit/time/until.ts";
import type { Server } from "../clients/client.ts";
import { istiodName, type Mesh } from "../mesh.ts";

/** The three running servers that issue certificates. */
export interface Servers {
  readonly serve: Server;
  readonly gateway: Server;
  readonly worker: Server;
  /** `rampart authority rotate` beside the running `rampart serve`. */
  readonly rotate: () => Promise<void>;
  readonly end: () => Promise<void>;
}

export interface Lifetimes {
  readonly serve: Readonly<Record<string, string>>;
  readonly worker: Readonly<Record<string, string>>;
}

export async function startServers(
  folder: string,
  mesh: Mesh,
  lifetimes: Lifetimes,
): Promise<Servers> {
  await mkdir(folder);
  const shared = {
    ISSUERS: [mesh.issuerTable],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
  };
  const worker = await startWorker({ ...shared, ...lifetimes.worker });
  const environment = { KEK: randomKek() };
  const configurationFile = await writeServeConfiguration(folder, {
    ...shared,
    ...lifetimes.serve,
  });
  const [serve, gateway] = await Promise.all([
    launchServer("serve", configurationFile, environment),
    startGateway(folder, mesh, worker),
  ]);
  const cron = repeatedly(worker.runCron, 1_000);
  return {
    serve: await withTls("rampart serve", serve, `http://${serve.monitoringAddress}`, folder),
    gateway: await withTls("rampart gateway", gateway, worker.origin, folder),
    worker: publishedAt(worker.origin),
    rotate: async () => {
      const words = ["authority", "rotate", "--yes", "--config", configurationFile];
      await runRampart(words, { environment });
    },
    end: async () => {
      await cron.end();
      await Promise.all([serve.end(), gateway.end()]);
      await worker.end();
    },
  };
}

async function writeServeConfiguration(folder: string, shared: object): Promise<string> {
  const file = join(folder, "rampart.toml");
  const own = {
    STORE_DIRECTORY: join(folder, "store"),
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    DIAGNOSTIC_RPCS: "everywhere",
  };
  await writeFile(file, stringify({ ...shared, ...own }));
  return file;
}

async function startGateway(
  folder: string,
  mesh: Mesh,
  { origin }: RunningWorker,
): Promise<ServerProcess> {
  const file = join(folder, "gateway.toml");
  const tokenFile = join(folder, "gateway-token");
  await writeFile(tokenFile, `${await mesh.token({ account: mesh.gatewayAccount })}\n`);
  const configuration = {
    UPSTREAM: origin,
    TOKEN_FILE: tokenFile,
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    DIAGNOSTIC_RPCS: "everywhere",
  };
  await writeFile(file, stringify(configuration));
  return launchServer("gateway", file);
}

/** A server that callers reach by TLS, and the origin of what its CA publishes. */
export async function withTls(
  name: Server["name"],
  { address }: Pick<ServerProcess, "address">,
  origin: string,
  folder: string,
): Promise<Server> {
  const published = publishedAt(origin);
  const rootsFile = join(folder, `roots-${name.replace(" ", "-")}.pem`);
  await writeFile(rootsFile, await published.bundle());
  return { ...published, name, address, tls: { serverName: istiodName, rootsFile } };
}

/** A CA that callers reach as the Worker, by its URL without TLS of its own. */
export function publishedAt(origin: string): Server {
  // Deno closes a connection that is kept without a word to its client.
  const ask = (path: string): Promise<Response> =>
    fetch(origin + path).catch(() => fetch(origin + path));
  return {
    name: "Worker",
    tls: undefined,
    address: new URL(origin).host,
    bundleUrl: `${origin}/bundle.json`,
    bundle: async () => (await ask("/bundle.pem")).text(),
    signer: async () => {
      const { authority = "none" } = (await (await ask("/readyz")).json()) as {
        authority?: string;
      };
      return authority;
    },
  };
}

/** The Worker in workerd, with its own KV namespace and its cron. */
interface RunningWorker {
  readonly origin: string;
  readonly runCron: () => Promise<unknown>;
  readonly end: () => Promise<void>;
}

async function startWorker(vars: NonNullable<Unstable_RawConfig["vars"]>): Promise<RunningWorker> {
  const harness = await createEdgeWorker({ vars: { ...vars, KEK: randomKek() } });
  const { url } = await harness.listen();
  const runCron = () => harness.getWorker().scheduled({ cron: "* * * * *" });
  await runCron();
  return { origin: url.origin, runCron, end: () => harness.close() };
}
