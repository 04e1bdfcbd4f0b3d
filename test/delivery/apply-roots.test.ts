import { expect, test } from "vitest";
import { applyRoots } from "../../src/delivery/root-delivery.ts";
import type { KubernetesRequest } from "../../src/kubernetes/client.ts";

const now = new Date("2026-11-21T12:00:00Z");
const bundle = { pem: "the roots", sequence: 7 };
const place = {
  namespace: "shop",
  configMap: "mesh-roots",
  fieldOwner: "rampart-distribute",
} as const;

const stored = {
  metadata: { name: "mesh-roots", namespace: "shop", labels: { "istio.io/config": "true" } },
  data: { "root-cert.pem": "the roots" },
};

test("applies the bundle, and gives what was stored", async () => {
  const requests: KubernetesRequest[] = [];
  const send = async (request: KubernetesRequest) => {
    requests.push(request);
    return request.body;
  };
  expect(await applyRoots(send, place, bundle, now)).toEqual({
    pem: "the roots",
    sequence: 7,
    deliveredAt: now,
  });
  const path = "/api/v1/namespaces/shop/configmaps/mesh-roots";
  expect(requests).toMatchObject([
    { method: "PATCH", path: `${path}?fieldManager=rampart-distribute&force=true` },
  ]);
});

test.each<[string, unknown]>([
  ["nothing, by status 404", undefined],
  ["no object", "stored"],
  ["other roots", { ...stored, data: { "root-cert.pem": "other roots" } }],
  ["no roots", { ...stored, data: null }],
  ["the roots without the label", { ...stored, metadata: { ...stored.metadata, labels: {} } }],
  ["another ConfigMap", { ...stored, metadata: { ...stored.metadata, name: "other" } }],
  ["that of another namespace", { ...stored, metadata: { ...stored.metadata, namespace: "a" } }],
])("fails where the API server answers %s", async (_, answer) => {
  await expect(applyRoots(async () => answer, place, bundle, now)).rejects.toMatchObject({
    name: "FetchError",
  });
});
