import { X509Certificate } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type DevelopmentCluster, startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";
import { createTestAuthority, type TestAuthority } from "../../testkit/agent/test-authority.ts";
import { type Relay, startRelay } from "../../testkit/network/relay.ts";
import type { Child } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { type EnvoyPair, startEnvoyPair } from "../agent/envoy-pair.ts";
import { counted, SteadyLoad, statusOf } from "../agent/processes/steady-load.ts";
import {
  authorityFolderIn,
  type Istiod,
  startIstiod,
  writeAuthority,
} from "../agent/xds/istiod.ts";
import { pilotSocketIn, startPodsPilotAgent } from "../agent/xds/pilot-agent.ts";
import { makeNetwork, type Network, startZtunnel, type Ztunnel } from "../revocation/ztunnels.ts";
import { AmbientWorkload, type ClusterCa, tokensOf } from "./ambient-workload.ts";
import type { Told } from "./envoy-story.ts";
import { MeshCa } from "./mesh.ts";

/** A sidecar renews six seconds after it got a certificate, and has the rest of its life for a busy moment. */
const sidecarVariables = {
  SECRET_TTL: "45s",
  SECRET_GRACE_PERIOD_RATIO: "0.87",
  ECC_SIGNATURE_ALGORITHM: "ECDSA",
};
const renewalSeconds = 120;

/** The programs of the story. */
interface Programs {
  readonly envoy: string;
  readonly istiod: string;
  readonly pilotAgent: string;
  /** Without it, Node plays its rules alone. */
  readonly ztunnel: string | undefined;
}

/** A cluster whose istiod has a root of its own. */
interface Cluster extends ClusterCa {
  readonly name: "east" | "west";
  readonly istiod: Istiod;
  /** The Service by which the cluster's workloads find their CA. */
  readonly service: Relay;
  /** The root that its istiod began with, PEM. */
  readonly root: string;
  /** Two workloads of ambient mode, of which the first moves before the second. */
  readonly workloads: readonly [AmbientWorkload, AmbientWorkload];
  readonly ztunnel: Ztunnel | undefined;
  /** The folder in which its pilot-agent keeps a certificate. */
  readonly certificates: string;
}

/** The mesh of two clusters. */
interface Stage {
  readonly ca: MeshCa;
  /** Rampart's own root, PEM. */
  readonly root: string;
  readonly east: Cluster;
  readonly west: Cluster;
  readonly folder: string;
}

const accounts = { east: ["mesh/a", "mesh/c"], west: ["mesh/b", "mesh/d"] } as const;
const rootsIn = (pem: string): number => pem.match(/-----END CERTIFICATE/g)?.length ?? 0;
const portOf = (address: string): number => Number(address.split(":").at(-1));

/**
 * Two clusters, whose istiods have roots of their own, join under one Rampart, go back, come again, and lose their old
 * roots: docs/tutorials/two-roots.md.
 */
export async function playTwoRoots(programs: Programs, folder: string, tell: Told): Promise<void> {
  await using ends = new AsyncDisposableStack();
  const stage = await startStage(programs, folder, ends);
  const [a, c] = stage.east.workloads;
  const [b, d] = stage.west.workloads;
  const envoys = await startEnvoys(programs, stage);
  ends.defer(() => envoys.end());
  const within = new SteadyLoad(pairs([a, c], [b, d]));
  ends.defer(() => within.stop());
  const foreign = await createTestAuthority("other", "spiffe://other.test");
  await playTrust(stage, { foreign, within }, tell);

  const nodes = callsOfNodes(stage.east.ztunnel, stage.west.ztunnel);
  const waypoint = {
    name: "a node proxy, a waypoint's Envoy",
    call: () => a.call(envoys.inboundPort, "mesh/b"),
  };
  const first = { name: "Envoys", call: () => statusOf(envoys.freshUrl) };
  for (const { name, call } of [...nodes, first])
    await until(`${name}: a first answer`, async () => (await call()) === "200");
  const ambient = pairs([a, b], [a, d], [c, b], [c, d]);
  const urls = [envoys.freshUrl, envoys.keptUrl];
  const between = new SteadyLoad([...ambient, ...nodes, waypoint, ...urls]);
  ends.defer(() => between.stop());
  const late = await AmbientWorkload.start("mesh/late", stage.east);
  ends.defer(() => late.close());
  const mustBeQuiet = (): string => `${counted(within)} within, ${counted(between)} between them`;
  await playMoves(stage, mustBeQuiet, tell);
  await playEnd(stage, { late, mustBeQuiet }, tell);
}

/** Neither cluster trusts the other, or Rampart. Then everybody trusts every root. */
async function playTrust(
  stage: Stage,
  { foreign, within }: { readonly foreign: TestAuthority; readonly within: SteadyLoad },
  tell: Told,
): Promise<void> {
  const { ca, east, west } = stage;
  const [[a], [b]] = [east.workloads, west.workloads];
  const early = await AmbientWorkload.start("mesh/early", rampartOf(ca, east));
  await tell(
    "before: each cluster trusts itself, and caCertificates reach no node proxy",
    async () => {
      const refused = await Promise.all([mustRefuse(a, b), mustRefuse(b, a)]);
      if (a.roots !== 1) throw new Error(`${a.roots} roots in the answer of istiod`);
      return `istio#61719: ${refused.join(", ")}`;
    },
  );
  await tell(
    "the wrong order: a certificate of Rampart where istiod does not bring its root",
    async () =>
      `refused: ${(await Promise.all([mustRefuse(early, a), mustRefuse(a, early)])).join(", ")}`,
  );
  await tell("every root is in every answer, by a reload and by a restart of istiod", async () => {
    await trustAll(stage, foreign.pem);
    await early.renew(rampartOf(ca, east));
    await Promise.all([mustAnswer(a, b), mustAnswer(early, a), mustAnswer(a, early)]);
    return counted(within);
  });
  early.close();
}

/** @param mustBeQuiet Counts the requests since its last call, of which none may have failed. */
async function playMoves(
  { ca, root, east, west }: Stage,
  mustBeQuiet: () => string,
  tell: Told,
): Promise<void> {
  await tell("east moves to Rampart, workload by workload, then west", async () => {
    for (const cluster of [east, west]) await move(cluster, ca.port, root);
    return mustBeQuiet();
  });
  await tell("the way back to both istiods, and to Rampart again", async () => {
    for (const cluster of [west, east])
      await move(cluster, portOf(cluster.istiod.address), cluster.root);
    for (const cluster of [west, east]) await move(cluster, ca.port, root);
    return mustBeQuiet();
  });
}

/** The parts of the end: a workload that nobody has moved. */
interface EndParts {
  readonly late: AmbientWorkload;
  readonly mustBeQuiet: () => string;
}

async function playEnd(stage: Stage, { late, mustBeQuiet }: EndParts, tell: Told): Promise<void> {
  const { ca, east, west } = stage;
  const [a] = east.workloads;
  await tell(
    "the last look: istiod's counter says who still asks it, the plan which roots are there",
    () => lastLook(stage, late),
  );
  await tell("the old roots leave; a workload that was overlooked is refused", async () => {
    await mustAnswer(late, a);
    for (const { id } of JSON.parse(await ca.type("root", "list", "--json")))
      await ca.type("root", "remove", id, "--yes");
    await eachHas(stage, 1);
    for (const { ztunnel } of [east, west]) await untilRenewed(ztunnel, () => {});
    const refused = await Promise.all([mustRefuse(late, a), mustRefuse(a, late)]);
    return `${refused.join(", ")}; ${mustBeQuiet()}`;
  });
}

/** Rampart signs, and has the keys of both clusters. Neither istiod has its root. */
async function startStage(
  { istiod, ztunnel }: Programs,
  folder: string,
  ends: AsyncDisposableStack,
): Promise<Stage> {
  const names = ["east", "west"] as const;
  const places = names.map((name) => join(folder, name));
  const keys = await Promise.all(
    places.map((place) => startDevelopmentCluster({ port: 0, folder: join(place, "keys") })),
  );
  for (const each of keys) ends.defer(() => each.close());
  await mkdir(join(folder, "ca"), { recursive: true });
  const ca = await MeshCa.start(join(folder, "ca"), {
    ISSUERS: keys.map(({ issuer }, i) => ({
      issuer,
      cluster: names[i],
      namespaces: ["mesh", "foo"],
    })),
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    MAX_WORKLOAD_CERT_TTL: "1h",
    DEFAULT_WORKLOAD_CERT_TTL: "1h",
  });
  ends.defer(async () => void (await ca.end()));
  const nodes = ztunnel ? { program: ztunnel, network: await makeNetwork(["a", "b"]) } : undefined;
  if (nodes) ends.defer(() => nodes.network.end());
  const roots = await Promise.all(places.map((place) => writeAuthority(authorityFolderIn(place))));
  const parts = { istiod, nodes, caCertificates: roots.map((pem) => ({ pem })), ends };
  const [east, west] = await Promise.all(
    keys.map((tokens, i) => startCluster(parts, i === 0 ? "east" : "west", folder, tokens)),
  );
  if (!east || !west) throw new Error("a cluster is missing");
  return { ca, root: await ca.bundle(), east, west, folder };
}

/** What both clusters share. */
interface ClusterParts {
  readonly istiod: string;
  readonly nodes: { readonly program: string; readonly network: Network } | undefined;
  readonly caCertificates: readonly object[];
  readonly ends: AsyncDisposableStack;
}

async function startCluster(
  { istiod, nodes, caCertificates, ends }: ClusterParts,
  name: "east" | "west",
  folder: string,
  tokens: DevelopmentCluster,
): Promise<Cluster> {
  const place = join(folder, name);
  const ofIstiod = await startIstiod({
    program: istiod,
    folder: place,
    issuer: tokens.issuer,
    variables: { ISTIO_MULTIROOT_MESH: "true" },
    meshConfig: { caCertificates },
  });
  ends.defer(() => ofIstiod.end());
  const service = await startRelay(portOf(ofIstiod.address), nodes ? "0.0.0.0" : "127.0.0.1");
  ends.defer(() => service.close());
  const root = await readFile(ofIstiod.rootFile, "utf8");
  const rootFile = join(place, "istio-ca-root-cert.pem");
  await writeFile(rootFile, root);
  const token = tokensOf(tokens);
  const found = { port: () => service.port, rootFile, token };
  const [first, second] = accounts[name];
  const workloads = [
    await AmbientWorkload.start(first, found),
    await AmbientWorkload.start(second, found),
  ] as const;
  for (const workload of workloads) ends.defer(() => workload.close());
  const certificates = join(place, "sidecar/certs");
  const node = nodes && (await startNode({ ...nodes, folder: place }, name, found));
  if (node) ends.defer(() => node.end());
  return {
    ...found,
    name,
    istiod: ofIstiod,
    service,
    root,
    workloads,
    ztunnel: node,
    certificates,
  };
}

/** A real ztunnel of a cluster. Its certificates of istiod, which are dated back two minutes, last ten seconds of use. */
const startNode = (
  options: NonNullable<ClusterParts["nodes"]> & { readonly folder: string },
  name: "east" | "west",
  { port, rootFile, token }: ClusterCa,
): Promise<Ztunnel> => {
  const mesh = { token: ({ account }: { readonly account: string }) => token(account) };
  const ca = { address: `localhost:${port()}`, rootFile, mesh };
  const variables = { SECRET_TTL: "140s", CLUSTER_ID: name };
  return startZtunnel({ ...options, ca, variables }, name === "east" ? "a" : "b");
};

/** An Envoy in each cluster, under its pilot-agent: that of the east calls that of the west. */
function startEnvoys(
  { envoy, pilotAgent }: Programs,
  { east, west, folder }: Stage,
): Promise<EnvoyPair> {
  const clusters = { a: east, b: west };
  const podOf = (name: "a" | "b"): string => join(folder, clusters[name].name, "sidecar");
  const start = async (name: "a" | "b", bootstrap: string): Promise<Child> => {
    const { service, rootFile, token } = clusters[name];
    const account = `mesh/${name}`;
    const { child } = await startPodsPilotAgent(pilotAgent, {
      folder: podOf(name),
      account,
      token: await token(account),
      ca: `localhost:${service.port}`,
      rootFile,
      variables: sidecarVariables,
      envoy: { program: envoy, bootstrap },
    });
    return child;
  };
  const [a, b] = [{ socket: pilotSocketIn(podOf("a")) }, { socket: pilotSocketIn(podOf("b")) }];
  return startEnvoyPair({ envoy, folder, baseId: 0, a, b, start });
}

/** Rampart at its own address, before a cluster's Service leads there. */
const rampartOf = (ca: MeshCa, cluster: Cluster): ClusterCa => ({
  ...cluster,
  port: () => ca.port,
  rootFile: ca.rootsFile,
});

/** The calls of each pair, in both directions. */
const pairs = (...each: readonly (readonly [AmbientWorkload, AmbientWorkload])[]) =>
  each.flatMap(([one, other]) => [callsOf(one, other), callsOf(other, one)]);

const callsOf = (one: AmbientWorkload, other: AmbientWorkload) => ({
  name: `${one.account}, ${other.account}`,
  call: () => one.callTo(other),
});

/** Calls of real ztunnels, from one cluster to the other and back. */
function callsOfNodes(east: Ztunnel | undefined, west: Ztunnel | undefined) {
  if (!east || !west) return [];
  const calls = (name: string, one: Ztunnel, other: Ztunnel) => ({
    name: `ztunnel of the ${name}`,
    call: async () => String(await one.call(other.ip)),
  });
  return [calls("east", east, west), calls("west", west, east)];
}

/** Does what gives a ztunnel another certificate, and waits until it has that. */
async function untilRenewed(ztunnel: Ztunnel | undefined, act: () => void): Promise<void> {
  const before = await ztunnel?.serialNumber();
  act();
  const renewed = async (): Promise<boolean> => (await ztunnel?.serialNumber()) !== before;
  if (ztunnel) await until("another certificate of ztunnel", renewed, renewalSeconds);
}

async function mustRefuse(one: AmbientWorkload, other: AmbientWorkload): Promise<string> {
  const said = await one.callTo(other);
  if (said === "200") throw new Error(`${one.account} is answered by ${other.account}`);
  return said;
}

async function mustAnswer(one: AmbientWorkload, other: AmbientWorkload): Promise<void> {
  const said = await one.callTo(other);
  if (said !== "200") throw new Error(`${one.account} calls ${other.account}: ${said}`);
}

/** `root add` at Rampart, then its bundle in `cacerts` of both istiods: one reloads it, the other restarts. */
async function trustAll({ ca, east, west, folder }: Stage, foreign: string): Promise<void> {
  const roots = join(folder, "roots.pem");
  await writeFile(roots, east.root + west.root + foreign);
  await ca.type("root", "add", roots);
  await until("all roots in Rampart's bundle", async () => rootsIn(await ca.bundle()) === 4);
  const bundle = await ca.bundle();
  for (const { istiod, rootFile } of [east, west])
    for (const file of [istiod.rootFile, rootFile]) await writeFile(file, bundle);
  await west.istiod.end();
  await west.istiod.resume();
  await eachHas({ east, west }, 4);
}

/** Each workload renews until its answer brings this many roots. */
async function eachHas({ east, west }: Pick<Stage, "east" | "west">, roots: number): Promise<void> {
  for (const cluster of [east, west]) {
    for (const workload of cluster.workloads) {
      await until(`${roots} roots for ${workload.account}`, async () => {
        await workload.renew(cluster);
        return workload.roots === roots;
      });
    }
  }
  for (const { name, certificates } of [east, west]) {
    const file = join(certificates, "root-cert.pem");
    const has = async (): Promise<boolean> =>
      rootsIn(await readFile(file, "utf8").catch(() => "")) === roots;
    await until(`${roots} roots for the sidecar of ${name}`, has, renewalSeconds);
  }
}

/** The cluster's Service leads to another CA. One workload after the other asks it, and the sidecar. */
async function move(cluster: Cluster, port: number, root: string): Promise<void> {
  await untilRenewed(cluster.ztunnel, () => cluster.service.turn(port));
  for (const workload of cluster.workloads) {
    await workload.renew(cluster);
    for (const other of cluster.workloads)
      if (other !== workload) await mustAnswer(other, workload);
  }
  const file = join(cluster.certificates, "cert-chain.pem");
  await until(
    `a certificate of the other CA for the sidecar of ${cluster.name}`,
    async () => {
      const leaf = await readFile(file, "utf8").catch(() => "");
      return rootsIn(leaf) > 0 && isSignedBy(leaf, root);
    },
    renewalSeconds,
  );
}

const isSignedBy = (leaf: string, root: string): boolean =>
  new X509Certificate(leaf).verify(new X509Certificate(root).publicKey);

async function lastLook({ ca, east, west }: Stage, late: AmbientWorkload): Promise<string> {
  const counts = () => Promise.all([east, west].map(({ istiod }) => istiod.csrCount()));
  const [ofEast = 0, ofWest = 0] = await counts();
  await late.renew({ ...east, port: () => portOf(east.istiod.address) });
  const [nowEast, nowWest] = await counts();
  if (nowEast !== ofEast + 1 || nowWest !== ofWest) {
    throw new Error(`${ofEast}, ${ofWest}, then ${nowEast}, ${nowWest}`);
  }
  const plan = await ca.type("authority", "plan");
  if (plan.match(/verifying.+\(root\)/g)?.length !== 3) throw new Error(`the plan says ${plan}`);
  return `citadel_server_csr_count: east ${ofEast}, then ${nowEast}; west stands still at ${nowWest}`;
}
