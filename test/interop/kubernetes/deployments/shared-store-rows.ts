import assert from "node:assert/strict";
import { parse as parseToml } from "smol-toml";
import { ServeConfiguration } from "../../../../src/node/serve/serve-configuration.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import type { Row } from "../../outcome-table.ts";
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

export const sharedStoreRows: readonly Row<Tools>[] = [
  ["the chart with replicas, applied, is the overlay with replicas", isOverlay(secrets)],
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
