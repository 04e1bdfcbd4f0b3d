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
  serveToml,
} from "../../../testkit/programs/rampart-process.ts";
import { repeatedly } from "../../../testkit/time/until.ts";
import type { Server } from "../clients/client.ts";
import { istiodName, type Mesh } from "../mesh.ts";

/** The three running servers that issue certificates. */
export type Servers = Awaited<ReturnType<typeof startServers>>;

export interface Lifetimes {
  readonly serve: Readonly<Record<string, string>>;
  readonly worker: Readonly<Record<string, string>>;
}

export async function startServers(folder: string, mesh: Mesh, lifetimes: Lifetimes) {
  await mkdir(folder);
  const shared = {
    ISSUERS: [mesh.issuerTable],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
  };
  const worker = await startWorker({ ...shared, ...lifetimes.worker });
  const environment = { KEK: randomKek() };
  const configurationFile = join(folder, "rampart.toml");
  const values = { ...shared, ...lifetimes.serve, DIAGNOSTIC_RPCS: "everywhere" };
  await writeFile(configurationFile, serveToml(join(folder, "store"), values));
  const [serve, gateway] = await Promise.all([
    launchServer("serve", configurationFile, environment),
    startGateway(folder, mesh, worker),
  ]);
  const cron = repeatedly(worker.runCron, 1_000);
  return {
    serve: await withTls("rampart serve", serve, `http://${serve.monitoringAddress}`, folder),
    gateway: await withTls("rampart gateway", gateway, worker.origin, folder),
    worker: publishedAt(worker.origin),
    /** `rampart authority rotate` beside the running `rampart serve`. */
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

async function startGateway(
  folder: string,
  mesh: Mesh,
  { origin }: { readonly origin: string },
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
async function startWorker(vars: NonNullable<Unstable_RawConfig["vars"]>) {
  const harness = await createEdgeWorker({ vars: { ...vars, KEK: randomKek() } });
  const { url } = await harness.listen();
  const runCron = () => harness.getWorker().scheduled({ cron: "* * * * *" });
  await runCron();
  return { origin: url.origin, runCron, end: () => harness.close() };
}
