import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { repeatedly, until } from "../../../testkit/time/until.ts";
import type { Server } from "../../native-grpc/clients/client.ts";
import { type Mesh, startMesh } from "../../native-grpc/mesh.ts";
import { startServers } from "../../native-grpc/servers/servers.ts";
import { notRun, type Outcome, shown } from "../../outcome-table.ts";
import { prebuilt, prebuiltIstiod } from "../../prebuilt.ts";
import type { AgentProcess } from "../processes/agent-process.ts";
import { counted, SteadyLoad, statusOf } from "../processes/steady-load.ts";
import { compareBootstraps } from "./istio-bootstrap.ts";
import { type Istiod, startIstiod } from "./istiod.ts";
import { addresses, namespace, writeMeshConfiguration } from "./mesh-configuration.ts";
import { configuredNames, prebuiltPilotAgent, startPilotAgent } from "./pilot-agent.ts";
import { startSidecar } from "./sidecar.ts";
import { startWorkload } from "./workload.ts";

const client = "Envoy 1.40.0, twice, under `rampart agent run`";

/** A life that lasts for a restart of istiod, and ends soon enough to wait for the next authority. */
const leafSeconds = 20;
const leaves = {
  DEFAULT_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
  MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
  AUTHORITY_LIFETIME: `${5 * leafSeconds}s`,
};

/** The XDS proxy between Envoy and a real istiod: the bootstrap, and two sidecars that Rampart certifies. */
export async function playXds(envoy: string, folder: string): Promise<Outcome[]> {
  const [found, pilot] = [await prebuilt(prebuiltIstiod), await prebuilt(prebuiltPilotAgent)];
  const names = { client, server: "istiod of 2026-08-27, rampart", what: "mutual TLS by istiod" };
  const bootstraps = await compareBootstraps(folder);
  if ("missing" in found) return [bootstraps, notRun(names, found.missing)];
  if ("missing" in pilot) return [bootstraps, notRun(names, pilot.missing)];
  const mesh = await startMesh(folder);
  const servers = await startServers(join(folder, "ca"), mesh, { serve: leaves, worker: leaves });
  const { serve: ca } = servers;
  const refreshing = repeatedly(() => refreshRoots(ca), 1_000);
  const programs = { istiodProgram: found.program, pilotAgent: pilot.program };
  const outcomes = await playWith({ envoy, folder, mesh, ca, ...programs });
  await refreshing.end();
  await servers.end();
  await mesh.end();
  return [bootstraps, ...outcomes];
}

/** The file that `rampart distribute` keeps in a cluster. */
async function refreshRoots({ bundle, tls }: Server): Promise<void> {
  const pem = await bundle().catch(() => undefined);
  if (pem && tls) await writeFile(tls.rootsFile, pem);
}

interface Stage {
  readonly envoy: string;
  readonly folder: string;
  readonly mesh: Mesh;
  readonly ca: Server;
  readonly istiodProgram: string;
  readonly pilotAgent: string;
}

async function playWith(stage: Stage): Promise<Outcome[]> {
  const { envoy, folder, mesh, ca, istiodProgram, pilotAgent } = stage;
  const workload = await startWorkload(`spiffe://cluster.local/ns/${namespace}/sa/web`);
  const [service = 0] = await freePorts(1);
  await writeMeshConfiguration(join(folder, "config"), { service, workload: workload.port });
  const issuer = mesh.issuerTable("").issuer;
  const istiod = await startIstiod({ program: istiodProgram, folder, issuer });
  const shared = { folder, mesh, ca, istiod, leafSeconds };
  const web = await startSidecar(envoy, { ...shared, name: "web" });
  const ledger = await startSidecar(envoy, { ...shared, name: "ledger" });
  const url = `http://${addresses.web}:${service}/`;
  const parties = { client, server: `istiod of 2026-08-27, ${ca.name}` };
  const outcomes: Outcome[] = [];
  const show = async (what: string, act: () => Promise<string>): Promise<void> =>
    void outcomes.push(await shown({ ...parties, what }, act));
  await show("a first answer by mutual TLS, as istiod says", async () => {
    await until("an answer", async () => (await statusOf(url)) === "200");
    const plain = await statusOf(`http://${addresses.ledger}:${service}/`);
    if (plain === "200") throw new Error("the second Envoy takes plaintext");
    return `plaintext: ${plain}`;
  });
  await show("Envoy takes everything that istiod sends", () => takesAll(web.agent, ledger.agent));
  await show("istiod restarts, certificates renew and the root rotates at once", () =>
    outlives({ ca, istiod, url, agent: web.agent }),
  );
  const names = await configuredNames(web.adminUrl);
  await web.agent.end();
  await show("Envoy has what it has under pilot-agent", async () => {
    const measure = await startPilotAgent({ pilotAgent, envoy }, { ...shared, name: "web" });
    await until("an answer", async () => (await statusOf(url)) === "200");
    const expected = await configuredNames(measure.adminUrl);
    await measure.child.end();
    if (expected.join() === names.join()) return `${names.length} clusters and listeners`;
    throw new Error(`${names.join()} instead of ${expected.join()}`);
  });
  await ledger.agent.end();
  await istiod.end();
  workload.close();
  return outcomes;
}

async function takesAll(...agents: readonly AgentProcess[]): Promise<string> {
  const seen: string[] = [];
  for (const agent of agents) {
    const { xds } = await agent.status();
    if (!xds?.isConnected) throw new Error(`no stream: ${xds?.lastEnd?.detail}`);
    if (xds.lastNack) throw new Error(`rejected: ${xds.lastNack.detail}`);
    seen.push(`${xds.types.reduce((sum, { pushes }) => sum + pushes, 0)} pushes`);
  }
  return seen.join(", ");
}

async function outlives(parts: {
  readonly ca: Server;
  readonly istiod: Istiod;
  readonly url: string;
  readonly agent: AgentProcess;
}): Promise<string> {
  const { ca, istiod, url, agent } = parts;
  const load = new SteadyLoad([url, url]);
  const notAfters = new Set<string>();
  const look = async (): Promise<void> => {
    const [identity] = (await agent.status()).identities;
    notAfters.add(identity?.notAfter ?? "");
  };
  const first = await ca.signer();
  await until(
    "another authority",
    async () => {
      await look();
      return (await ca.signer()) !== first;
    },
    240,
  );
  const before = notAfters.size;
  await istiod.end();
  await istiod.resume();
  await until(
    "two more renewals",
    async () => {
      await look();
      return notAfters.size >= before + 2;
    },
    120,
  );
  await until("the stream to the new istiod", async () => {
    return (await agent.status()).xds?.isConnected === true;
  });
  await load.stop();
  return `${notAfters.size} certificates; ${counted(load)}`;
}
