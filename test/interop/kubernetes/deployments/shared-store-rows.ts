import assert from "node:assert/strict";
import { parse as parseToml } from "smol-toml";
import { ServeConfiguration } from "../../../../src/node/serve/serve-configuration.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import type { ControlPlane, Json } from "../cluster/control-plane.ts";
import type { Row } from "../rows.ts";
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
  /** What the account may do with Secrets, in the namespace of the store alone. */
  readonly verbs: readonly string[];
  readonly values: object;
}

const secrets: Overlay = {
  folder: "overlays/replicas",
  store: "kubernetes",
  verbs: ["create", "delete", "get", "list", "update", "watch"],
  values: withSecrets,
};

const bucket: Overlay = {
  folder: "overlays/bucket",
  store: "s3",
  verbs: [],
  values: withBucket,
};

/** The rows on two replicas that share a store. */
export const sharedStoreRows: readonly Row<Tools>[] = [
  ["the chart with replicas, applied, is the overlay with replicas", isOverlay(secrets)],
  ["the overlay with replicas has the rights of its store and no other", hasRights(secrets)],
  ["the overlay with replicas keeps one of two through evictions", keepsOne(secrets)],
  ["the chart with a bucket, applied, is the overlay with a bucket", isOverlay(bucket)],
  ["the overlay with a bucket has no right in the cluster", hasRights(bucket)],
];

/** The configuration in the objects, as `serve` reads it. */
function storeIn(objects: readonly KubernetesObject[]): string {
  const [text = ""] = objects.flatMap(({ data }) => data?.["rampart.toml"] ?? []);
  // Dates of TOML are text in a configuration.
  const values = { ...JSON.parse(JSON.stringify(parseToml(text))), KEK: randomKek() };
  return ServeConfiguration.parse(values, { KUBERNETES_SERVICE_HOST: "10.0.0.1" }).store.kind;
}

interface PodSpec {
  readonly automountServiceAccountToken: boolean;
}

interface DeploymentSpec {
  readonly template: { readonly metadata: { readonly labels: object }; readonly spec: PodSpec };
}

async function deploymentIn({ call }: ControlPlane, namespace: string): Promise<DeploymentSpec> {
  const { spec } = await call("GET", `/apis/apps/v1/namespaces/${namespace}/deployments/rampart`);
  return spec as DeploymentSpec;
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

/** Applies the overlay with namespaces of its own, where nothing else gives its account a right. */
async function applyApart({ plane, kustomize }: Tools, { folder, store }: Overlay) {
  const namespace = `apart-${store}`;
  const records = `${namespace}-records`;
  for (const name of [namespace, records])
    await plane.call("POST", "/api/v1/namespaces", { metadata: { name } }).catch(() => ({}));
  const text = JSON.stringify(await buildKustomization(kustomize, folder))
    .replaceAll('"istio-system"', `"${namespace}"`)
    .replaceAll('"rampart-store"', `"${records}"`);
  for (const object of JSON.parse(text) as KubernetesObject[]) await applyStrictly(plane, object);
  return { namespace, records };
}

const verbs = "create delete deletecollection get list patch update watch".split(" ");
const resources = ["secrets", "configmaps", "pods", "serviceaccounts"];

function hasRights(overlay: Overlay) {
  return async (tools: Tools): Promise<void> => {
    const { namespace, records } = await applyApart(tools, overlay);
    const { plane } = tools;
    const user = `system:serviceaccount:${namespace}:rampart`;
    const may = async (attributes: Json): Promise<string[]> => {
      const path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
      const groups = ["system:serviceaccounts", "system:authenticated"];
      const spec = { user, groups, resourceAttributes: attributes };
      const { status } = await plane.call("POST", path, { spec });
      const { verb, resource, namespace: where } = attributes;
      return (status as { allowed: boolean }).allowed ? [`${verb} ${resource} in ${where}`] : [];
    };
    const questions = [namespace, records, "kube-system"].flatMap((where) =>
      resources.flatMap((resource) => verbs.map((verb) => ({ verb, resource, namespace: where }))),
    );
    const rights = (await Promise.all(questions.map(may))).flat();
    assert.deepEqual(
      rights,
      overlay.verbs.map((verb) => `${verb} secrets in ${records}`),
    );
    // A pod without a right has no token either.
    const { template } = await deploymentIn(plane, namespace);
    assert.equal(template.spec.automountServiceAccountToken, overlay.verbs.length > 0);
  };
}

/** No controller runs, so the row counts the pods of the disruption budget in its place. */
function keepsOne(overlay: Overlay) {
  return async (tools: Tools): Promise<void> => {
    const { namespace } = await applyApart(tools, overlay);
    const { call } = tools.plane;
    const { template } = await deploymentIn(tools.plane, namespace);
    const pods = `/api/v1/namespaces/${namespace}/pods`;
    for (const name of ["a", "b"]) {
      const { metadata, spec } = template;
      const pod = await call("POST", pods, { metadata: { ...metadata, name }, spec });
      const conditions = [{ type: "Ready", status: "True" }];
      await call("PUT", `${pods}/${name}/status`, {
        ...pod,
        status: { phase: "Running", conditions },
      });
    }
    const path = `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/rampart`;
    const budget = await call("GET", path);
    const { metadata } = budget;
    const { generation } = metadata as { generation: number };
    const counted = {
      expectedPods: 2,
      currentHealthy: 2,
      desiredHealthy: 1,
      disruptionsAllowed: 1,
    };
    const status = { ...counted, observedGeneration: generation };
    await call("PUT", `${path}/status`, { ...budget, status });
    const evict = (name: string) =>
      call("POST", `${pods}/${name}/eviction`, { metadata: { name, namespace } });
    await evict("a");
    await assert.rejects(evict("b"), /429 .*disruption budget/);
  };
}
