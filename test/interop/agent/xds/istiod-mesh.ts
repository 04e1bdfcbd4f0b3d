import { join } from "node:path";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { until } from "../../../testkit/time/until.ts";
import { type Outcome, playAll, shown } from "../../outcome-table.ts";
import { prebuilt, prebuiltIstiod } from "../../prebuilt.ts";
import { type ServingCa, startServingCa } from "../../serving-ca.ts";
import { required } from "../../software.ts";
import { startWorkload } from "../envoy-pair.ts";
import type { AgentProcess } from "../processes/agent-process.ts";
import { counted, SteadyLoad, statusOf } from "../processes/steady-load.ts";
import { compareBootstraps } from "./istio-bootstrap.ts";
import { type Istiod, startIstiod } from "./istiod.ts";
import { addresses, namespace, writeMeshConfiguration } from "./mesh-configuration.ts";
import { configuredNames, prebuiltPilotAgent, startPilotAgent } from "./pilot-agent.ts";
import { startSidecar } from "./sidecar.ts";

const client = "Envoy 1.40.0, twice, under `rampart agent run`";

/** A life half of which lasts for a restart of istiod. */
const leafSeconds = 20;
const leaves = {
  DEFAULT_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
  MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
};

/** The XDS proxy between Envoy and a real istiod: the bootstrap, and two sidecars that Rampart certifies. */
export async function playXds(envoy: string, folder: string): Promise<Outcome[]> {
  const names = { client, server: "istiod of 2026-08-27, rampart serve" };
  const bootstraps = await compareBootstraps(folder);
  const outcomes = await playAll(names, async () => {
    const istiodProgram = await required(prebuilt(prebuiltIstiod));
    const pilotAgent = await required(prebuilt(prebuiltPilotAgent));
    const ca = await startServingCa(join(folder, "ca"), { values: { ...leaves, CRL: "off" } });
    const played = await playWith({ envoy, folder, ca, istiodProgram, pilotAgent });
    await ca.end();
    return played;
  });
  return [bootstraps, ...outcomes];
}

interface Stage {
  readonly envoy: string;
  readonly folder: string;
  readonly ca: ServingCa;
  readonly istiodProgram: string;
  readonly pilotAgent: string;
}

async function playWith(stage: Stage): Promise<Outcome[]> {
  const { envoy, folder, ca, istiodProgram, pilotAgent } = stage;
  const caller = `URI=spiffe://cluster.local/ns/${namespace}/sa/web`;
  // It serves only the caller that its proxy has authenticated.
  const workload = await startWorkload(({ headers }, response) => {
    const shown = String(headers["x-forwarded-client-cert"]);
    const isKnown = shown.split(/[;,]/).includes(caller);
    response.writeHead(isKnown ? 200 : 403).end(isKnown ? "served\n" : shown);
  });
  const [service = 0] = await freePorts(1);
  await writeMeshConfiguration(join(folder, "config"), { service, workload: workload.port });
  const issuer = ca.mesh.issuerTable.issuer;
  const istiod = await startIstiod({ program: istiodProgram, folder, issuer });
  const shared = { folder, ca, istiod, leafSeconds };
  const web = await startSidecar(envoy, { ...shared, name: "web" });
  const ledger = await startSidecar(envoy, { ...shared, name: "ledger" });
  const url = `http://${addresses.web}:${service}/`;
  const parties = { client, server: "istiod of 2026-08-27, rampart serve" };
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
  await show("istiod restarts while certificates renew", () => outlives(istiod, url, web.agent));
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
  await workload.close();
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

async function outlives(istiod: Istiod, url: string, agent: AgentProcess): Promise<string> {
  const load = new SteadyLoad([url, url]);
  const notAfters = new Set<string>();
  await istiod.end();
  await istiod.resume();
  await until("two renewals", async () => {
    const [identity] = (await agent.status()).identities;
    notAfters.add(identity?.notAfter ?? "");
    return notAfters.size > 2;
  });
  await until("the stream to the new istiod", async () => {
    return (await agent.status()).xds?.isConnected === true;
  });
  await load.stop();
  return `${notAfters.size} certificates; ${counted(load)}`;
}
