import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Mint } from "../../../src/ca/mint.ts";
import { Composition } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { crlDocument } from "../../../src/program/bundle/crl-document.ts";
import { MeshCrls } from "../../../src/program/bundle/crls.ts";
import { parseCertificates } from "../../../src/program/files/pem-file.ts";
import { taintSigner } from "../../testkit/agent/taint-signer.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { noFetching } from "../../testkit/network/no-fetching.ts";
import { until } from "../../testkit/time/until.ts";
import { mint } from "./cluster/accounts.ts";
import type { ControlPlane, Json } from "./cluster/control-plane.ts";
import { applyManifest } from "./cluster/manifests.ts";
import type { Scene } from "./cluster/scene.ts";
import { distributing } from "./distributing.ts";
import { enrolledCa } from "./enrolled-ca.ts";
import type { Row } from "./rows.ts";

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

async function distributes(scene: Scene): Promise<void> {
  const { plane } = scene;
  await applyManifest(plane, "base/distribute/distribute.yaml");
  const token = await mint(plane, "istio-system", "rampart-distribute", { audiences: [] });
  const path = (namespace: string): string =>
    `/api/v1/namespaces/${namespace}/configmaps/istio-ca-root-cert`;
  const crlPath = "/api/v1/namespaces/shop/configmaps/istio-ca-crl";
  const dataIn = async (namespace: string): Promise<unknown> => {
    const { data } = await plane.call("GET", path(namespace)).catch(() => ({}) as Json);
    return (data as Record<string, unknown> | undefined)?.["root-cert.pem"];
  };
  await published(scene, async (UPSTREAM, pem) => {
    const has = (namespace: string) =>
      until(`${namespace} has no bundle`, async () => (await dataIn(namespace)) === pem);
    await distributing(scene, token, { UPSTREAM }, async () => {
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
    await distributing(scene, token, { UPSTREAM, CRL_CONFIG_MAPS: true }, async () => {
      await has("later");
      await until("shop has no CRLs", async () => {
        const { data } = await plane.call("GET", crlPath).catch(() => ({}) as Json);
        return (data as Record<string, unknown> | undefined)?.["ca-crl.pem"] === crl;
      });
    });
  });
}

interface ConfigMap {
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
}

/** The roots and CRLs of a namespace at one instant: a list is one version of the cluster. */
async function trustIn({ call }: ControlPlane, namespace: string) {
  const { items } = await call("GET", `/api/v1/namespaces/${namespace}/configmaps`);
  const held = new Map(
    (items as readonly ConfigMap[]).map(({ metadata, data }) => [metadata.name, data]),
  );
  const pem = held.get("istio-ca-root-cert")?.["root-cert.pem"] ?? "";
  const crlPem = held.get("istio-ca-crl")?.["ca-crl.pem"] ?? "";
  const roots = parseCertificates(pem);
  const crls = crlPem === "" ? [] : crlDocument.parse(Buffer.from(crlPem));
  const known = new MeshCrls();
  known.take(crls, { roots, intermediates: [] }, new Date());
  const { missing } = known.usable({ roots, intermediates: [] }, new Date());
  return { pem, hasCrls: crls.length > 0, isWhole: missing.length === 0 };
}

/** A CA with CRLs, whose operator has it rotate and taints. */
async function keepsOneSet(scene: Scene): Promise<void> {
  const { plane } = scene;
  await applyManifest(plane, "base/distribute/distribute.yaml");
  const token = await mint(plane, "istio-system", "rampart-distribute", { audiences: [] });
  const issuers = [{ issuer: plane.issuer, jwks_uri: "https://keys.test" }];
  const values = { KEK: randomKek(), MAX_WORKLOAD_CERT_TTL: "10s", ISSUERS: issuers };
  const served = await serveCa({ ...values, CRL: "on" });
  const clock = () => new Date();
  const operator = await Composition.compose(
    Configuration.parse({ ...values, PROPAGATION_INTERVAL: "0s" }),
    {
      store: await FileStore.open(served.storeDirectory),
      fetching: noFetching,
      cryptoProvider: webCryptoProvider,
      log: createEventRecorder(),
      clock,
    },
  );
  /** @param areNew Whether all roots change at once: until the first CRL of the new ones is there, there may be none. */
  const becomes = (isSo: (roots: string) => boolean, areNew = false): Promise<void> =>
    until("shop has not the wanted roots", async () => {
      const { pem, isWhole, hasCrls } = await trustIn(plane, "shop");
      assert.ok(isWhole || (areNew && !hasCrls), "a root of shop has no CRL");
      return isWhole && isSo(pem);
    });
  const UPSTREAM = `http://127.0.0.1:${served.monitoringPort}`;
  try {
    await distributing(scene, token, { UPSTREAM, CRL_CONFIG_MAPS: true }, async () => {
      await until("shop has no roots with their CRLs", async () => {
        const { pem, isWhole, hasCrls } = await trustIn(plane, "shop");
        return isWhole && hasCrls && pem === (await served.bundle());
      });
      const first = await served.bundle();
      const { mint: minting } = operator;
      await Mint.mintAuthority(minting, Schedule.next(minting.phaseLengths, clock(), clock()));
      await becomes((roots) => roots.includes(first) && roots.length > first.length);
      await taintSigner(operator, "with-last-leaf", clock());
      await becomes((roots) => !roots.includes(first));
      for (let i = 0; i < 2; i++) {
        const before = await served.bundle();
        await taintSigner(operator, "immediately", clock());
        await becomes((roots) => roots !== before, true);
      }
    });
  } finally {
    await served.end();
  }
}

async function appliesClusterTrustBundle(scene: Scene): Promise<void> {
  const { plane } = scene;
  const name = encodeURIComponent("istio.io:istiod-ca:root-cert");
  const path = `${plane.certificates}/clustertrustbundles/${name}`;
  await published(scene, async (UPSTREAM, pem) => {
    const values = { UPSTREAM, CONFIG_MAPS: false, CLUSTER_TRUST_BUNDLE: true };
    await distributing(scene, plane.adminToken, values, () =>
      until("there is no ClusterTrustBundle", async () => {
        const { spec } = await plane.call("GET", path).catch(() => ({}) as Json);
        return (spec as { trustBundle?: string } | undefined)?.trustBundle === pem;
      }),
    );
  });
}

/** The rows on `rampart distribute`. */
export const distributeRows: readonly Row<Scene>[] = [
  [
    "distribute, with the rights of deploy/kustomize/base/distribute/distribute.yaml: new namespaces, drift, restart",
    distributes,
  ],
  [
    "distribute, beside rotations and taints: roots and CRLs are one set at each instant",
    keepsOneSet,
  ],
  ["ClusterTrustBundle of signer istio.io/istiod-ca", appliesClusterTrustBundle],
];
