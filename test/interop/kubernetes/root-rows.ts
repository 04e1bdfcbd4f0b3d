import assert from "node:assert/strict";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import { until } from "../../testkit/time/until.ts";
import type { Row } from "../outcome-table.ts";
import { createAccount, mint, rule } from "./cluster/accounts.ts";
import type { ControlPlane, Json } from "./cluster/control-plane.ts";
import { applyManifest } from "./cluster/manifests.ts";
import type { Scene } from "./cluster/scene.ts";
import { distributing } from "./distributing.ts";

const credential = "CLUSTER_CREDENTIAL_PUSH";
const path = (namespace: string, name = "istio-ca-root-cert"): string =>
  `/api/v1/namespaces/${namespace}/configmaps/${name}`;

const ofRoots = (verbs: string[]): object[] => [
  rule("", ["namespaces"], ["list"]),
  { ...rule("", ["configmaps"], verbs), resourceNames: ["istio-ca-root-cert"] },
];

const dataAt = async ({ call }: ControlPlane, at: string): Promise<Json | undefined> =>
  (await call("GET", at).catch(() => ({}) as Json))["data"] as Json | undefined;

const has = (plane: ControlPlane, namespace: string, pem: string): Promise<void> =>
  until(
    `${namespace} has no bundle`,
    async () => (await dataAt(plane, path(namespace)))?.["root-cert.pem"] === pem,
  );

/** Runs `serve` with this credential and a rotation every ten seconds. */
async function serving(
  { plane: { server, issuer, ca } }: Scene,
  token: string,
  work: (served: ServedCa) => Promise<void>,
): Promise<void> {
  const kubernetes = { server, ca, credential, review: "instead-of-keys", deliver_roots: true };
  const served = await serveCa({
    MAX_WORKLOAD_CERT_TTL: "80s",
    CRL: "on",
    ISSUERS: [{ issuer, cluster: "prod-1", kubernetes }],
    [credential]: token,
  });
  try {
    await work(served);
  } finally {
    await served.end();
  }
}

/** Delivers the roots of a CA to the namespaces, while the work runs. */
type Deliver = (scene: Scene, work: (pem: string) => Promise<void>) => Promise<void>;

/** Namespaces old and new have the roots, also after somebody else has changed or deleted them. */
const keepsRoots =
  (late: string, deliver: Deliver) =>
  ({ plane, ...scene }: Scene): Promise<void> =>
    deliver({ plane, ...scene }, async (pem) => {
      for (const namespace of ["default", "kube-system", "shop"]) await has(plane, namespace, pem);
      await plane.call("POST", "/api/v1/namespaces", { metadata: { name: late } });
      await has(plane, late, pem);
      await plane.call("DELETE", path(late));
      await has(plane, late, pem);
      const { metadata } = await plane.call("GET", path("shop"));
      await plane.call("PUT", path("shop"), { metadata, data: { "root-cert.pem": "mine" } });
      await has(plane, "shop", pem);
      assert.equal(await dataAt(plane, path("kube-public")), undefined);
    });

const byServe: Deliver = async (scene, work) => {
  const token = await createAccount(scene.plane, "push", ofRoots(["list", "create", "patch"]));
  await serving(scene, token, async ({ bundle }) => work(await bundle()));
};

const byDistribute: Deliver = async (scene, work) => {
  const { plane } = scene;
  await applyManifest(plane, "base/distribute/distribute.yaml");
  const token = await mint(plane, "istio-system", "rampart-distribute", { audiences: [] });
  await serving(scene, "no-token", async ({ bundle, monitoringPort }) => {
    const UPSTREAM = `http://127.0.0.1:${monitoringPort}`;
    const pem = await bundle();
    await distributing(scene, token, { UPSTREAM, CRL_CONFIG_MAPS: true }, async () => {
      await work(pem);
      await until("shop has no CRLs", async () => {
        const data = await dataAt(plane, path("shop", "istio-ca-crl"));
        return data?.["ca-crl.pem"] === (await (await fetch(`${UPSTREAM}/crl.pem`)).text());
      });
    });
  });
};

export const distributeRows: readonly Row<Scene>[] = [
  [
    "roots and CRLs by distribute, with the rights of deploy/kustomize/base/distribute/distribute.yaml",
    keepsRoots("late", byDistribute),
  ],
];

/** With the rights that the documents name. */
export const rootRows: readonly Row<Scene>[] = [
  ["roots by push from serve", keepsRoots("pushed", byServe)],
];
