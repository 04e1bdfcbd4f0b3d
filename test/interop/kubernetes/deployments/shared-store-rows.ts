import assert from "node:assert/strict";
import { parse as parseToml } from "smol-toml";
import { ServeConfiguration } from "../../../../src/node/serve/serve-configuration.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import type { Row } from "../../outcome-table.ts";
import type { Json } from "../cluster/control-plane.ts";
import {
  applyStrictly,
  buildKustomization,
  essence,
  type KubernetesObject,
  renderChart,
  type Tools,
} from "./rendered.ts";

const plain = {
  issuers: [{ issuer: "https://issuer.example.com" }],
  // The overlays have none.
  networkPolicy: { enabled: false },
};
const twoReplicas = { inceptionDate: "2026-12-31", replicas: 2 };

/** The values with which the chart makes what the overlay with Secrets has. */
export const withSecrets: object = {
  ...plain,
  serve: { ...twoReplicas, configuration: { STORE: "kubernetes" } },
};

/** The values with which the chart makes what the overlay with a bucket has. */
export const withBucket: object = {
  ...plain,
  serve: {
    ...twoReplicas,
    bucketSecret: "rampart-bucket",
    configuration: { STORE: "s3", STORE_BUCKET: "mesh-ca", S3_REGION: "eu-central-1" },
  },
};

/** An overlay in which replicas share a store. */
interface Overlay {
  readonly folder: string;
  readonly store: "kubernetes" | "s3";
  readonly values: object;
}

const secrets: Overlay = {
  folder: "overlays/replicas",
  store: "kubernetes",
  values: withSecrets,
};

const bucket: Overlay = {
  folder: "overlays/bucket",
  store: "s3",
  values: withBucket,
};

/** The rows on two replicas that share a store. */
export const sharedStoreRows: readonly Row<Tools>[] = [
  ["the chart with replicas, applied, is the overlay with replicas", isOverlay(secrets)],
  ["the overlay with replicas has the rights of its store and no other", hasRights],
  ["the chart with a bucket, applied, is the overlay with a bucket", isOverlay(bucket)],
];

/** The configuration in the objects, as `serve` reads it. */
function storeIn(objects: readonly KubernetesObject[]): string {
  const [text = ""] = objects.flatMap(({ data }) => data?.["rampart.toml"] ?? []);
  // Dates of TOML are text in a configuration.
  const values = { ...JSON.parse(JSON.stringify(parseToml(text))), KEK: randomKek() };
  return ServeConfiguration.parse(values, { KUBERNETES_SERVICE_HOST: "10.0.0.1" }).store.kind;
}

function isOverlay({ folder, store, values }: Overlay) {
  return async ({ plane, helm, kustomize }: Tools): Promise<void> => {
    const objects = await renderChart(helm, "rampart", "istio-system", values);
    for (const object of objects) await applyStrictly(plane, object);
    const overlay = await buildKustomization(kustomize, folder);
    const isComparable = ({ kind }: KubernetesObject): boolean => kind !== "ConfigMap";
    const essenceOf = (object: KubernetesObject): string =>
      essence(object).replaceAll(/"image":"[^"]+"/g, '"image":""');
    assert.deepEqual(
      objects.filter(isComparable).map(essenceOf).toSorted(),
      overlay.filter(isComparable).map(essenceOf).toSorted(),
    );
    assert.equal(storeIn(objects), store);
  };
}

const verbs = "create delete deletecollection get list patch update watch".split(" ");
const resources = ["secrets", "configmaps", "pods", "serviceaccounts"];

/** Applies the overlay with namespaces of its own, where nothing else gives its account a right. */
async function hasRights({ plane, kustomize }: Tools): Promise<void> {
  const [namespace, records] = ["apart", "apart-records"];
  for (const name of [namespace, records])
    await plane.call("POST", "/api/v1/namespaces", { metadata: { name } });
  const text = JSON.stringify(await buildKustomization(kustomize, secrets.folder))
    .replaceAll('"istio-system"', `"${namespace}"`)
    .replaceAll('"rampart-store"', `"${records}"`);
  for (const object of JSON.parse(text) as KubernetesObject[]) await applyStrictly(plane, object);
  const may = async (attributes: Json): Promise<string[]> => {
    const path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    const user = `system:serviceaccount:${namespace}:rampart`;
    const groups = ["system:serviceaccounts", "system:authenticated"];
    const spec = { user, groups, resourceAttributes: attributes };
    const { status } = await plane.call("POST", path, { spec });
    const { verb, resource, namespace: where } = attributes;
    return (status as { allowed: boolean }).allowed ? [`${verb} ${resource} in ${where}`] : [];
  };
  const questions = [namespace, records, "kube-system"].flatMap((where) =>
    resources.flatMap((resource) => verbs.map((verb) => ({ verb, resource, namespace: where }))),
  );
  assert.deepEqual(
    (await Promise.all(questions.map(may))).flat(),
    "create delete get list update watch".split(" ").map((verb) => `${verb} secrets in ${records}`),
  );
}
