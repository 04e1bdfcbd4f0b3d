import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createEventLog } from "../../../src/ca/issuance/audit-event.ts";
import { distribute } from "../../../src/node/distribute/distribute.ts";
import { parseDistributeConfiguration } from "../../../src/node/distribute/distribute-configuration.ts";
import { eventually, mint } from "./accounts.ts";
import type { Json } from "./control-plane.ts";
import { enrolledCa } from "./enrolled-ca.ts";
import { applyManifest } from "./manifests.ts";
import type { Row } from "./rows.ts";
import type { Scene } from "./scene.ts";

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

/** The rows on `rampart distribute`. */
export const distributeRows: readonly Row<Scene>[] = [
  [
    "distribute, with the rights of deploy/kustomize/base/distribute/distribute.yaml: new namespaces, drift, restart",
    distributes,
  ],
  ["ClusterTrustBundle of signer istio.io/istiod-ca", appliesClusterTrustBundle],
];
