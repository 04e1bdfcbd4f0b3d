import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parse as parseToml } from "smol-toml";
import { goodAnswerSeconds } from "../../../src/authn/token/token-review.ts";
import { createEventLog } from "../../../src/ca/issuance/audit-event.ts";
import {
  enrol,
  formatEnrolment,
  parseIssuerDocuments,
} from "../../../src/cli/verbs/cluster/cluster-enrol.ts";
import { readKubeconfig } from "../../../src/cli/verbs/cluster/kubeconfig.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { fetchTrusting } from "../../../src/host/http/node-fetch.ts";
import { createKubernetesClient } from "../../../src/kubernetes/client.ts";
import { podsKnownSeconds } from "../../../src/kubernetes/pod-lookup.ts";
import { createPodWatch, podsTrustedSeconds } from "../../../src/kubernetes/pod-watch.ts";
import { distribute } from "../../../src/node/distribute/distribute.ts";
import { parseDistributeConfiguration } from "../../../src/node/distribute/distribute-configuration.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { type Outcome, report } from "../outcomes.ts";
import { fromGoProxy } from "../software.ts";
import { createAccount, eventually, mint, rule } from "./accounts.ts";
import { type ControlPlane, type Json, startControlPlane } from "./control-plane.ts";
import { playDeployments } from "./deployment-rows.ts";
import { writeKubeconfig } from "./kubeconfig.ts";
import { applyManifest } from "./manifests.ts";
import { pageRows } from "./page-rows.ts";
import { type ControlPlanePrograms, controlPlanePrograms, version } from "./programs.ts";
import { replicaRows } from "./replica-rows.ts";
import { rootRows } from "./root-rows.ts";
import { serviceRows } from "./service-rows.ts";
import { signerRows } from "./signer-rows.ts";
import { storeRows } from "./store-rows.ts";
import { followTutorial, tutorial } from "./tutorial.ts";

const credential = "CLUSTER_CREDENTIAL_PROD_1";

/** Creates the rights of docs/how-to/clusters.md for an account of the CA. */
async function grantAccess({ call }: ControlPlane): Promise<string> {
  await call("POST", "/api/v1/namespaces", { metadata: { name: "istio-system" } });
  return createAccount({ call }, "rampart", [
    rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    rule("", ["pods"], ["get", "list", "watch"]),
  ]);
}

interface Pod {
  readonly namespace: string;
  readonly account: string;
  readonly name: string;
  readonly uid: string;
}

async function createPod(
  { call }: ControlPlane,
  namespace: string,
  account: string,
  node: string,
): Promise<Pod> {
  const name = `${account}-${node}`;
  const pod = {
    metadata: { name },
    spec: { nodeName: node, serviceAccountName: account, containers: [{ name: "a", image: "a" }] },
  };
  const created = await call("POST", `/api/v1/namespaces/${namespace}/pods`, pod);
  const { metadata } = created;
  const { uid } = metadata as { uid: string };
  return { namespace, account, name, uid };
}

const tokenOf = (
  plane: ControlPlane,
  { namespace, account, name, uid }: Pod,
  audience = "istio-ca",
) =>
  mint(plane, namespace, account, {
    audiences: [audience],
    boundObjectRef: { kind: "Pod", apiVersion: "v1", name, uid },
  });

interface Scene {
  readonly plane: ControlPlane;
  readonly folder: string;
  readonly access: string;
  readonly web: Pod;
  readonly faraway: Pod;
  readonly ztunnel: Pod;
}

async function setScene(plane: ControlPlane, folder: string): Promise<Scene> {
  const access = await grantAccess(plane);
  const { call } = plane;
  await call("POST", "/api/v1/namespaces", { metadata: { name: "shop" } });
  for (const name of ["node-1", "node-2"])
    await call("POST", "/api/v1/nodes", { metadata: { name } });
  for (const [namespace, name] of [
    ["shop", "web"],
    ["shop", "far"],
    ["istio-system", "ztunnel"],
  ]) {
    await call("POST", `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
  }
  return {
    plane,
    folder,
    access,
    web: await createPod(plane, "shop", "web", "node-1"),
    faraway: await createPod(plane, "shop", "far", "node-2"),
    ztunnel: await createPod(plane, "istio-system", "ztunnel", "node-1"),
  };
}

/** Starts a CA with the table that `rampart cluster enrol` prints for the kubeconfig of this cluster. */
async function enrolledCa(
  { plane, folder, access }: Scene,
  review?: "instead-of-keys",
): Promise<RunningCa> {
  const path = join(folder, "kubeconfig");
  await writeKubeconfig(plane, path);
  const { read, server, ca } = await readKubeconfig(path, undefined);
  const shown = parseIssuerDocuments(
    await read("/.well-known/openid-configuration"),
    await read("/openid/v1/jwks"),
  );
  const kubernetes = review && { server, ca, review };
  const settings = { cluster: "prod-1", audiences: ["istio-ca"], kubernetes };
  const nowhere = async (): Promise<never> => {
    throw new Error("the issuer is a name of the inside: nobody asks");
  };
  const toml = formatEnrolment(
    await enrol(shown, settings, { anywhere: nowhere, public: nowhere }),
    "serve",
  );
  const { ISSUERS } = parseToml(toml) as unknown as { ISSUERS: Record<string, unknown>[] };
  const running = await startCa({
    ISSUERS: ISSUERS.map((table) => ({
      ...table,
      trusted_node_accounts: ["istio-system/ztunnel"],
      ...(!review && { node_reach: "anywhere" }),
    })),
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    CRL: "on",
    [credential]: access,
  });
  passTo(running, new Date());
  await running.found();
  return running;
}

function passTo(running: RunningCa, instant: Date): void {
  running.pass((instant.getTime() - running.now().getTime()) / 1000);
}

function callerOf({ certificateAuthority, now }: RunningCa, token: string) {
  const headers = new Headers({ authorization: `Bearer ${token}`, clusterid: "prod-1" });
  return certificateAuthority.authenticate({ headers }, now());
}

async function impersonate(running: RunningCa, token: string, account: string): Promise<string> {
  const { identityPolicy } = running.certificateAuthority.issuance;
  const requested = `spiffe://cluster.local/ns/${account.replace("/", "/sa/")}`;
  return await identityPolicy(await callerOf(running, token), requested, running.now());
}

async function refused(work: Promise<unknown>, evidence: string): Promise<void> {
  try {
    await work;
  } catch (error) {
    assert(error instanceof CaError, String(error));
    assert.match(JSON.stringify(error.refusal), new RegExp(`"${evidence}"`));
    return;
  }
  assert.fail("nothing was refused");
}

const rows: readonly (readonly [string, (scene: Scene) => Promise<void>])[] = [
  [
    "tokens by inline keys: a pod's, with pod and node; another audience's not",
    async (scene) => {
      const ca = await enrolledCa(scene);
      const caller = await callerOf(ca, await tokenOf(scene.plane, scene.web));
      assert.equal(caller.spiffeId, "spiffe://cluster.local/ns/shop/sa/web");
      assert.deepEqual(caller.pod, { name: scene.web.name, uid: scene.web.uid });
      assert.equal(caller.node?.name, "node-1");
      await refused(callerOf(ca, await tokenOf(scene.plane, scene.web, "vault")), "audience");
    },
  ],
  [
    "node checks by claims: a bound node proxy's word counts, an unbound one's not",
    async (scene) => {
      const ca = await enrolledCa(scene);
      const spiffeId = await impersonate(ca, await tokenOf(scene.plane, scene.ztunnel), "shop/web");
      assert.equal(spiffeId, "spiffe://cluster.local/ns/shop/sa/web");
      const unbound = await mint(scene.plane, "istio-system", "ztunnel", {
        audiences: ["istio-ca"],
      });
      await refused(impersonate(ca, unbound, "shop/web"), "pod");
    },
  ],
  [
    "TokenReview: a pod's token, with pod and node; another audience's not; a deleted pod's not",
    async (scene) => {
      const ca = await enrolledCa(scene, "instead-of-keys");
      const doomed = await createPod(scene.plane, "shop", "web", "node-2");
      const token = await tokenOf(scene.plane, doomed);
      const caller = await callerOf(ca, token);
      assert.equal(caller.spiffeId, "spiffe://cluster.local/ns/shop/sa/web");
      assert.deepEqual([caller.pod?.uid, caller.node?.name], [doomed.uid, "node-2"]);
      await refused(callerOf(ca, await tokenOf(scene.plane, scene.web, "vault")), "audience");
      const path = `/api/v1/namespaces/shop/pods/${doomed.name}`;
      await scene.plane.call("DELETE", path, { gracePeriodSeconds: 0 });
      ca.pass(goodAnswerSeconds);
      // The API server caches its answers for ten seconds.
      await eventually("a deleted pod's token still passes", async () => {
        ca.pass(goodAnswerSeconds);
        const outcome = await callerOf(ca, token).catch((error: unknown) => error);
        return outcome instanceof CaError && outcome.refusal.reason === "credential-rejected";
      });
    },
  ],
  [
    "node checks by the API: what is on the proxy's node, not what is on another or nowhere",
    async (scene) => {
      const ca = await enrolledCa(scene, "instead-of-keys");
      const token = await tokenOf(scene.plane, scene.ztunnel);
      const spiffeId = await impersonate(ca, token, "shop/web");
      assert.equal(spiffeId, "spiffe://cluster.local/ns/shop/sa/web");
      await refused(impersonate(ca, token, "shop/far"), "instance");
      await refused(impersonate(ca, token, "shop/nobody"), "instance");
      await refused(impersonate(ca, await tokenOf(scene.plane, scene.web), "shop/web"), "account");
      ca.pass(podsKnownSeconds);
      assert.equal(await impersonate(ca, token, "shop/web"), spiffeId);
    },
  ],
  [
    "pods by a watch: one that comes, one that ends, one that goes, and quiet for as long as it likes",
    watchesPods,
  ],
  [
    "distribute, with the rights of deploy/kustomize/base/distribute/distribute.yaml: new namespaces, drift, restart",
    distributes,
  ],
  ["ClusterTrustBundle of signer istio.io/istiod-ca", appliesClusterTrustBundle],
  ...rootRows,
  ...signerRows,
  ...serviceRows,
  ...pageRows,
  ...storeRows,
  ...replicaRows,
];

/** Finds no pod, so that every answer comes from the watch. */
async function watchesPods({ plane, access }: Scene): Promise<void> {
  const ending = new AbortController();
  const faults: string[] = [];
  const { server, ca } = plane;
  const cluster = {
    cluster: "prod-1",
    client: createKubernetesClient({ server, credential: () => access }, fetchTrusting(ca)),
    failed: (_: string, { message }: Error) => void faults.push(message),
  };
  const nothing = { find: async () => undefined, isOn: async () => false };
  const clock = (): Date => new Date();
  const pods = createPodWatch(clock, ending.signal)(cluster, nothing);
  const isOn = (node: string, name: string) =>
    pods.isOn(node, { namespace: "shop", name }, clock());
  try {
    await eventually("the first pods are not known", () => isOn("node-1", "web"));
    assert.equal(await isOn("node-3", "web"), false);
    const passing = await createPod(plane, "shop", "web", "node-3");
    await eventually("a new pod is not known", () => isOn("node-3", "web"));
    assert.equal((await pods.find("shop", passing, clock()))?.uid, passing.uid);
    const path = `/api/v1/namespaces/shop/pods/${passing.name}`;
    const { metadata } = await plane.call("GET", path);
    const status = { phase: "Succeeded" };
    await plane.call("PUT", `${path}/status`, {
      ...(await plane.call("GET", path)),
      metadata,
      status,
    });
    await eventually("a pod that has ended is known", async () => !(await isOn("node-3", "web")));
    await plane.call("DELETE", `${path}?gracePeriodSeconds=0`);
    await createPod(plane, "shop", "web", "node-3");
    await eventually("a pod of the same name is not known", () => isOn("node-3", "web"));
    assert.equal(await pods.find("shop", passing, clock()), undefined);
    await plane.call("DELETE", `${path}?gracePeriodSeconds=0`);
    await eventually("a deleted pod is known", async () => !(await isOn("node-3", "web")));
    for (let second = 0; second < 2 * podsTrustedSeconds; second++) {
      assert.equal(await isOn("node-1", "web"), true, `forgotten after ${second} quiet seconds`);
      await setTimeout(1000);
    }
    assert.deepEqual(faults, []);
  } finally {
    ending.abort();
  }
}

/** Serves a CA over HTTP while the work runs. */
async function published(
  scene: Scene,
  work: (origin: string, pem: string) => Promise<void>,
): Promise<void> {
  const { app } = await enrolledCa(scene);
  const server = createServer(async (request, response) => {
    response.end(await (await app.request(request.url ?? "/")).text());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const pem = await (await app.request("/bundle.pem")).text();
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, pem);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

async function running(scene: Scene, values: object, work: () => Promise<void>): Promise<void> {
  const caFile = join(scene.folder, "ca.crt");
  await writeFile(caFile, scene.plane.ca);
  const configuration = parseDistributeConfiguration(
    {
      KUBERNETES_SERVER: scene.plane.server,
      KUBERNETES_CA_FILE: caFile,
      KUBERNETES_TOKEN_FILE: join(scene.folder, "token"),
      MONITORING_LISTEN: "127.0.0.1:0",
      ...values,
    },
    {},
  );
  const clock = () => new Date();
  const log = createEventLog(clock, (line) => console.log(line));
  const listener = await distribute(configuration, { log, clock });
  try {
    await work();
  } finally {
    await listener.close(1000);
  }
}

async function distributes(scene: Scene): Promise<void> {
  const { plane, folder } = scene;
  await applyManifest(plane, "base/distribute/distribute.yaml");
  await writeFile(
    join(folder, "token"),
    await mint(plane, "istio-system", "rampart-distribute", { audiences: [] }),
  );
  const path = (namespace: string): string =>
    `/api/v1/namespaces/${namespace}/configmaps/istio-ca-root-cert`;
  const crlPath = "/api/v1/namespaces/shop/configmaps/istio-ca-crl";
  const dataIn = async (namespace: string): Promise<unknown> => {
    const { data } = await plane.call("GET", path(namespace)).catch(() => ({}) as Json);
    return (data as Record<string, unknown> | undefined)?.["root-cert.pem"];
  };
  await published(scene, async (UPSTREAM, pem) => {
    const has = (namespace: string) =>
      eventually(`${namespace} has no bundle`, async () => (await dataIn(namespace)) === pem);
    await running(scene, { UPSTREAM }, async () => {
      for (const namespace of ["default", "kube-system", "shop"]) await has(namespace);
      await plane.call("POST", "/api/v1/namespaces", { metadata: { name: "late" } });
      await has("late");
      await plane.call("DELETE", path("late"));
      await has("late");
      const { metadata } = await plane.call("GET", path("shop"));
      await plane.call("PUT", path("shop"), { metadata, data: { "root-cert.pem": "mine" } });
      await has("shop");
      assert.equal(await dataIn("kube-public"), undefined);
    });
    await plane.call("POST", "/api/v1/namespaces", { metadata: { name: "later" } });
    const crl = await (await fetch(`${UPSTREAM}/crl.pem`)).text();
    await running(scene, { UPSTREAM, CRL_CONFIG_MAPS: true }, async () => {
      await has("later");
      await eventually("shop has no CRLs", async () => {
        const { data } = await plane.call("GET", crlPath).catch(() => ({}) as Json);
        return (data as Record<string, unknown> | undefined)?.["ca-crl.pem"] === crl;
      });
    });
  });
}

async function appliesClusterTrustBundle(scene: Scene): Promise<void> {
  const { plane, folder } = scene;
  await writeFile(join(folder, "token"), plane.adminToken);
  const name = encodeURIComponent("istio.io:istiod-ca:root-cert");
  const path = `/apis/certificates.k8s.io/v1beta1/clustertrustbundles/${name}`;
  await published(scene, async (UPSTREAM, pem) => {
    await running(scene, { UPSTREAM, CONFIG_MAPS: false, CLUSTER_TRUST_BUNDLE: true }, () =>
      eventually("there is no ClusterTrustBundle", async () => {
        const { spec } = await plane.call("GET", path).catch(() => ({}) as Json);
        return (spec as { trustBundle?: string } | undefined)?.trustBundle === pem;
      }),
    );
  });
}

async function faultsOf(name: string, work: Promise<void>): Promise<string[]> {
  try {
    await work;
    console.log(`ok      ${name}`);
    return [];
  } catch (error) {
    console.log(`FAILED  ${name}`);
    return [`${name}: ${error instanceof Error ? error.message : String(error)}`];
  }
}

/** A part of the names of the rows to run, for work on one of them. */
const [, , part = ""] = process.argv;

/** Gives some work a new cluster and a folder. */
async function inCluster(
  programs: ControlPlanePrograms,
  work: (plane: ControlPlane, folder: string) => Promise<Outcome[]>,
): Promise<Outcome[]> {
  const folder = await mkdtemp(join(tmpdir(), "rampart-interop-"));
  const plane = await startControlPlane(programs);
  // An API server outlives its suite, and its etcd.
  const interrupt = (): void => void plane.stop().finally(() => process.exit(1));
  process.once("SIGTERM", interrupt).once("SIGINT", interrupt);
  try {
    return await work(plane, folder);
  } finally {
    process.off("SIGTERM", interrupt).off("SIGINT", interrupt);
    await plane.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function runRows(plane: ControlPlane, folder: string): Promise<Outcome[]> {
  const scene = await setScene(plane, folder);
  const faults: string[] = [];
  const wanted = rows.filter(([name]) => name.includes(part));
  for (const [name, work] of wanted) faults.push(...(await faultsOf(name, work(scene))));
  const outcome = { ...participants, passed: wanted.length - faults.length, faults };
  return [outcome, ...(await playDeployments(plane, participants.server, part))];
}

/** The tutorial begins in a cluster that has nothing yet. */
async function runTutorial(plane: ControlPlane, folder: string): Promise<Outcome[]> {
  const outcome = { ...participants, client: "kubectl and helm" };
  const helm = await fromGoProxy("helm.sh/helm/v3/cmd/helm@v3.22.0");
  if ("missing" in helm) return [{ ...outcome, passed: 0, faults: [], missing: helm.missing }];
  const faults = await faultsOf(tutorial, followTutorial(plane, folder, helm.program));
  return [{ ...outcome, passed: 1 - faults.length, faults }];
}

const participants = { client: "Rampart", server: `kube-apiserver ${version}` };
const programs = await controlPlanePrograms();
if (typeof programs === "string") {
  report([{ ...participants, passed: 0, faults: [], missing: programs }]);
} else {
  const outcomes = await inCluster(programs, runRows);
  if (tutorial.includes(part)) outcomes.push(...(await inCluster(programs, runTutorial)));
  report(outcomes);
}
