import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePorts } from "../../testkit/network/free-ports.ts";
import type { Relay } from "../../testkit/network/relay.ts";
import { until } from "../../testkit/time/until.ts";
import { type Outcome, shown } from "../outcome-table.ts";
import type { EdgeCa } from "./edge-ca.ts";
import { type EnvoyPair, startEnvoyPair } from "./envoy-pair.ts";
import { AgentProcess, type AgentVariables } from "./processes/agent-process.ts";
import { counted, SteadyLoad, statusOf } from "./processes/steady-load.ts";

/** A life that outlasts an outage, and still lets a rotation end within minutes. */
export const leafSeconds = 20;

export interface Stage {
  readonly ca: EdgeCa;
  readonly network: Relay;
  readonly agents: { readonly a: AgentProcess; readonly b: AgentProcess };
  readonly envoys: EnvoyPair;
  readonly load: SteadyLoad;
}

const sidecars = {
  client: "Envoy 1.40.0, twice",
  server: "rampart agent, Worker",
};

/** The scenes, in their order, while requests go on. */
export const scenes: readonly (readonly [what: string, play: (stage: Stage) => Promise<string>])[] =
  [
    ["a whole rotation of the authority", wholeRotation],
    ["an agent is killed", agentKill],
    ["an agent is restarted while the CA is away", restartInOutage],
  ];

export async function environment(
  folder: string,
  ca: EdgeCa,
  network: Relay,
  name: string,
): Promise<AgentVariables> {
  return {
    CA_ADDR: `http://127.0.0.1:${network.port}`,
    SECRET_TTL: `${leafSeconds}s`,
    // The agents renew with 0.6 of the life left, which leaves time for an outage.
    SECRET_GRACE_PERIOD_RATIO: "0.6",
    POD_NAMESPACE: "mesh",
    SERVICE_ACCOUNT: name,
    RAMPART_TOKEN_FILE: await ca.tokenFile(folder, name),
    RAMPART_SDS_SOCKET: join(folder, `sds-${name}`),
    RAMPART_CACHE: join(folder, `cache-${name}`),
  };
}

export async function playScene(
  what: string,
  act: (stage: Stage) => Promise<string>,
  stage: Stage,
): Promise<Outcome> {
  stage.load.take();
  return shown({ ...sidecars, what }, async () => `${await act(stage)}; ${counted(stage.load)}`);
}

async function threeRenewals({ agents }: Stage): Promise<string> {
  const seen = new Set<string>();
  await until("four certificates", async () => {
    const { identities } = await agents.a.status();
    seen.add(identities[0]?.notAfter ?? "");
    return seen.size >= 4;
  });
  return `${seen.size} certificates`;
}

export async function wholeRotation(stage: Stage): Promise<string> {
  const first = await stage.ca.signingRoot();
  await until(
    "another authority signs",
    async () => {
      return (await stage.ca.signingRoot()) !== first;
    },
    240,
  );
  await untilGone(first, 240, stage);
  return "the old root is gone from the proxies";
}

async function agentKill({ agents: { b } }: Stage): Promise<string> {
  await b.end("SIGKILL");
  b.start();
  await b.ready();
  await sleep(2_000);
  return "ready again";
}

async function restartInOutage({ network, agents: { a } }: Stage): Promise<string> {
  network.cut();
  await a.end("SIGTERM");
  a.start();
  await a.ready();
  network.mend();
  await sleep(leafSeconds * 1000);
  return "ready from its cache";
}

/** Waits until neither agent serves the root any more. */
async function untilGone(root: string, seconds: number, { agents }: Stage): Promise<void> {
  for (const agent of [agents.a, agents.b]) {
    await until(
      "the root is gone",
      async () => {
        const { roots } = await agent.status();
        return !roots.some(({ sha256 }) => sha256 === root);
      },
      seconds,
    );
  }
}

/** Taints a stolen key with immediate effect. Connections may break then, and must recover. */
export async function suddenTaint(stage: Stage): Promise<Outcome> {
  const { ca, envoys } = stage;
  const names = { ...sidecars, what: "the authority is tainted, its root leaves at once" };
  const tainted = await ca.signingRoot();
  const begin = performance.now();
  await ca.taint("immediately");
  return shown(names, async () => {
    await untilGone(tainted, leafSeconds, stage);
    const answers = async () => (await statusOf(envoys.freshUrl)) === "200";
    await until("requests succeed", answers, leafSeconds);
    const seconds = ((performance.now() - begin) / 1000).toFixed(1);
    return `root gone and healed after ${seconds} s, by itself`;
  });
}

/** Runs one agent for a node, whose Envoys request secrets by SPIFFE ID. */
export async function nodeProxy(envoy: string, folder: string, stage: Stage): Promise<Outcome> {
  const { ca, network } = stage;
  const names = { client: "Envoy 1.40.0, twice", server: "rampart agent, node mode, Worker" };
  const feed = join(folder, "workloads");
  await writeFile(feed, "pod-1 mesh a\npod-2 mesh b\n");
  const variables = await environment(folder, ca, network, "node");
  const [port = 0] = await freePorts(1);
  const agent = new AgentProcess(folder, { ...variables, RAMPART_WORKLOADS: feed }, port);
  agent.start();
  await agent.ready();
  const socket = join(folder, "sds-node");
  const resource = (name: string): string => `spiffe://cluster.local/ns/mesh/sa/${name}`;
  const envoys = await startEnvoyPair({
    envoy,
    folder,
    baseId: process.pid * 4 + 2,
    a: { socket, resource: resource("a") },
    b: { socket, resource: resource("b") },
  });
  await until("a first answer", async () => (await statusOf(envoys.freshUrl)) === "200");
  const load = new SteadyLoad([envoys.keptUrl, envoys.freshUrl]);
  const outcome = await playScene("two workloads of one node, renewed", threeRenewals, {
    ...stage,
    envoys,
    load,
    agents: { a: agent, b: agent },
  });
  await load.stop();
  await Promise.all([envoys.end(), agent.end()]);
  return { ...outcome, ...names };
}

/** The names by which SPIRE's users ask. A peer of the mesh is none of the foreign trust domain. */
export async function spireNames(envoy: string, folder: string): Promise<Outcome> {
  const names = { client: "Envoy 1.40.0, twice", server: "rampart agent, SPIRE's names" };
  const what = "ALL, IDs of trust domains and of workloads";
  const id = (name: string): string => `spiffe://cluster.local/ns/mesh/sa/${name}`;
  const b = { socket: join(folder, "sds-b"), resource: id("b"), roots: "spiffe://cluster.local" };
  const seen: string[] = [];
  for (const roots of ["ALL", "spiffe://other.test"]) {
    const envoys = await startEnvoyPair({
      envoy,
      folder,
      baseId: process.pid * 4 + 2_000_000 + 2 * seen.length,
      a: { socket: join(folder, "sds-a"), resource: id("a"), roots },
      b,
    });
    let status = "";
    await until("an answer through both Envoys", async () => {
      status = await statusOf(envoys.freshUrl);
      return roots === "ALL" ? status === "200" : status.includes("remote connection failure");
    }).catch(() => {});
    seen.push(`${roots}: ${status}`);
    await envoys.end();
  }
  return shown({ ...names, what }, async () => {
    if (seen[0]?.endsWith("200") && seen[1]?.includes("503")) return seen.join("; ");
    throw new Error(seen.join("; "));
  });
}

export async function wrongIdentities(envoys: EnvoyPair): Promise<Outcome> {
  const urls = [envoys.wrongServerUrl, envoys.wrongClientUrl];
  const statuses = await Promise.all(urls.map((url) => statusOf(url)));
  const what = "a peer of another identity, on either side";
  return shown({ client: "Envoy 1.40.0", server: "Envoy 1.40.0", what }, async () => {
    if (statuses.every((status) => status.startsWith("503"))) return "refused in the handshake";
    throw new Error(statuses.join("; "));
  });
}
