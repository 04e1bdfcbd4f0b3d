import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { until } from "../../testkit/time/until.ts";
import { mint } from "./cluster/accounts.ts";
import type { Json } from "./cluster/control-plane.ts";
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

/** The rows on `rampart distribute`. */
export const distributeRows: readonly Row<Scene>[] = [
  [
    "distribute, with the rights of deploy/kustomize/base/distribute/distribute.yaml: new namespaces, drift, restart",
    distributes,
  ],
];
