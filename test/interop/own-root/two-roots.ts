import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type DevelopmentCluster, startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";
import { createWorkloadKey } from "../../testkit/callers/workload-key.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
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
import { istiodName } from "../native-grpc/mesh.ts";
import { callWith, type Loot } from "../revocation/workloads.ts";
import { makeNetwork, type Network, startZtunnel, type Ztunnel } from "../revocation/ztunnels.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import type { Told } from "./envoy-story.ts";

/** A sidecar renews six seconds after it got a certificate, and has the rest of its life for a busy moment. */
const sidecarVariables = {
  SECRET_TTL: "45s",
  SECRET_GRACE_PERIOD_RATIO: "0.87",
  ECC_SIGNATURE_ALGORITHM: "ECDSA",
};
const renewalSeconds = 120;

interface Programs {
  readonly envoy: string;
  readonly istiod: string;
  readonly pilotAgent: string;
  /** Without it, sidecars call alone. */
  readonly ztunnel: string | undefined;
}

/** The CA that the workloads of a cluster find at its address. */
interface ClusterCa {
  readonly port: () => number;
  /** The file of ConfigMap `istio-ca-root-cert`. */
  readonly rootFile: string;
  readonly token: (account: string) => Promise<string>;
}

/** A cluster whose istiod has a root of its own. */
interface Cluster extends ClusterCa {
  readonly name: "east" | "west";
  readonly istiod: Istiod;
  /** The Service by which the cluster's workloads find their CA. */
  readonly service: Relay;
  /** The root that its istiod began with, PEM. */
  readonly root: string;
  readonly ztunnel: Ztunnel | undefined;
  /** The folder in which its pilot-agent keeps a certificate. */
  readonly certificates: string;
}

interface Stage {
  readonly ca: ServingCa;
  /** Rampart's own root, PEM. */
  readonly root: string;
  readonly east: Cluster;
  readonly west: Cluster;
  readonly folder: string;
}

const rootsIn = (pem: string): number => pem.match(/-----END CERTIFICATE/g)?.length ?? 0;
const portOf = (address: string): number => Number(address.split(":").at(-1));

/**
 * Two clusters, whose istiods have roots of their own, join under one Rampart, go back, come again, and lose their old
 * roots: docs/tutorials/two-roots.md.
 */
export async function playTwoRoots(programs: Programs, folder: string, tell: Told): Promise<void> {
  await using ends = new AsyncDisposableStack();
  const stage = await startStage(programs, folder, ends);
  const { ca, root, east, west } = stage;
  const envoys = await startEnvoys(programs, stage);
  ends.defer(() => envoys.end());
  await tell("before: caCertificates reach no node proxy", async () => {
    await eachAnswerHas(stage, 1);
    return "istio#61719: each istiod answers with its own root alone";
  });
  await tell("every root is in every answer, by a reload and by a restart of istiod", async () => {
    await trustAll(stage);
    return "3 roots for node proxies and sidecars";
  });

  const nodes = callsOfNodes(east.ztunnel, west.ztunnel);
  const first = { name: "Envoys", call: () => statusOf(envoys.freshUrl) };
  for (const { name, call } of [...nodes, first])
    await until(`${name}: a first answer`, async () => (await call()) === "200");
  const load = new SteadyLoad([...nodes, envoys.freshUrl, envoys.keptUrl]);
  ends.defer(() => load.stop());
  await tell("east moves to Rampart, then west", async () => {
    for (const cluster of [east, west]) await move(cluster, ca.port, root);
    return counted(load);
  });
  await tell("the way back to both istiods, and to Rampart again", async () => {
    for (const each of [west, east]) await move(each, portOf(each.istiod.address), each.root);
    for (const each of [west, east]) await move(each, ca.port, root);
    return counted(load);
  });
  let late: Loot | undefined;
  await tell(
    "the last look: istiod's counter says who still asks it, the plan which roots are there",
    async () => {
      const { seen, loot } = await lastLook(stage);
      late = loot;
      return seen;
    },
  );
  await tell("the old roots leave; a workload that was overlooked is refused", async () => {
    if (!late) throw new Error("nobody was overlooked");
    const before = await callWith(late, envoys.inboundPort);
    if (before !== "200") throw new Error(`it was refused before: ${before}`);
    for (const { id } of JSON.parse(await ca.type("root", "list", "--json")))
      await ca.type("root", "remove", id, "--yes");
    await eachHas(stage, 1);
    for (const { ztunnel } of [east, west]) await untilRenewed(ztunnel, () => {});
    const refused = await callWith(late, envoys.inboundPort);
    if (refused === "200") throw new Error("it is still answered");
    return `${refused}; ${counted(load)}`;
  });
}

/** What a node proxy gets of the CA of its cluster, whose last element is all that ztunnel knows of roots. */
async function heldOf(account: string, { port, rootFile, token }: ClusterCa): Promise<Loot> {
  const [namespace, name] = account.split("/");
  const { csrPem, privateKey } = await createWorkloadKey(
    `spiffe://cluster.local/ns/${namespace}/sa/${name}`,
  );
  const client = nativeClient(port(), istiodName, { roots: await readFile(rootFile, "utf8") });
  const authorization = `Bearer ${await token(account)}`;
  const call = { csr: csrPem, validityDuration: 3600n };
  const answer = await client.createCertificate(call, { authorization });
  client.close();
  if (!("certChain" in answer)) throw new Error(`the CA answers ${JSON.stringify(answer)}`);
  const key = privateKey.export({ type: "pkcs8", format: "pem" });
  const [roots = "", ...chain] = answer.certChain.toReversed();
  return {
    key: Buffer.from(key),
    cert: Buffer.from(chain.toReversed().join("")),
    ca: Buffer.from(roots),
  };
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
  const ISSUERS = keys.map(({ issuer }, i) => ({
    issuer,
    cluster: names[i],
    namespaces: ["mesh", "foo"],
  }));
  const ca = await startServingCa(join(folder, "ca"), {
    values: {
      ISSUERS,
      PROPAGATION_INTERVAL: "1s",
      MAX_WORKLOAD_CERT_TTL: "1h",
      DEFAULT_WORKLOAD_CERT_TTL: "1h",
    },
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
  const token = (account: string): Promise<string> => {
    const [namespace = "", serviceAccount = ""] = account.split("/");
    const claims = { namespace, serviceAccount, audiences: ["istio-ca"] };
    return tokens.mintToken({ ...claims, expirationSeconds: 3600 });
  };
  const found = { port: () => service.port, rootFile, token };
  const certificates = join(place, "sidecar/certs");
  const node = nodes && (await startNode({ ...nodes, folder: place }, name, found));
  if (node) ends.defer(() => node.end());
  return {
    ...found,
    name,
    istiod: ofIstiod,
    service,
    root,
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

/** `root add` at Rampart, then its bundle in `cacerts` of both istiods: one reloads it, the other restarts. */
async function trustAll(stage: Stage): Promise<void> {
  const { ca, east, west, folder } = stage;
  const roots = join(folder, "roots.pem");
  await writeFile(roots, east.root + west.root);
  await ca.type("root", "add", roots);
  await until("all roots in Rampart's bundle", async () => rootsIn(await ca.bundle()) === 3);
  const bundle = await ca.bundle();
  for (const { istiod, rootFile } of [east, west])
    for (const file of [istiod.rootFile, rootFile]) await writeFile(file, bundle);
  await west.istiod.end();
  await west.istiod.resume();
  await eachHas(stage, 3);
}

async function eachAnswerHas({ east, west }: Stage, roots: number): Promise<void> {
  for (const cluster of [east, west])
    await until(`${roots} roots in an answer in ${cluster.name}`, async () => {
      const { ca } = await heldOf("mesh/node", cluster);
      return rootsIn(ca.toString()) === roots;
    });
}

/** Node proxies and sidecars renew until they have this many roots. */
async function eachHas(stage: Stage, roots: number): Promise<void> {
  await eachAnswerHas(stage, roots);
  for (const { name, certificates } of [stage.east, stage.west]) {
    const file = join(certificates, "root-cert.pem");
    const has = async (): Promise<boolean> =>
      rootsIn(await readFile(file, "utf8").catch(() => "")) === roots;
    await until(`${roots} roots for the sidecar of ${name}`, has, renewalSeconds);
  }
}

/** The cluster's Service leads to another CA, which its node proxy and its sidecar ask. */
async function move(cluster: Cluster, port: number, root: string): Promise<void> {
  await untilRenewed(cluster.ztunnel, () => cluster.service.turn(port));
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

/** Somebody still asks the istiod of the east. @returns What the counters say, and what that one got. */
async function lastLook({ ca, east, west }: Stage): Promise<{ seen: string; loot: Loot }> {
  const counts = () => Promise.all([east, west].map(({ istiod }) => istiod.csrCount()));
  const [ofEast = 0, ofWest = 0] = await counts();
  const loot = await heldOf("mesh/a", { ...east, port: () => portOf(east.istiod.address) });
  const [nowEast, nowWest] = await counts();
  if (nowEast !== ofEast + 1 || nowWest !== ofWest) {
    throw new Error(`${ofEast}, ${ofWest}, then ${nowEast}, ${nowWest}`);
  }
  const plan = await ca.type("authority", "plan");
  if (plan.match(/verifying.+\(root\)/g)?.length !== 2) throw new Error(`the plan says ${plan}`);
  const seen = `citadel_server_csr_count: east ${ofEast}, then ${nowEast}; west stands still at ${nowWest}`;
  return { seen, loot };
}
