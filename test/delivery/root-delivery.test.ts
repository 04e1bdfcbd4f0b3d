import { beforeEach, expect, test } from "vitest";
import { applyRoots, type DeliveryState } from "../../src/delivery/root-delivery.ts";
import type { KubernetesRequest } from "../../src/kubernetes/client.ts";
import { DeliveryProgress } from "../../src/node/distribute/delivery-progress.ts";
import type { NumberedBundle } from "../../src/pki/authority/trust-bundle.ts";

const first = new Date("2026-11-21T12:00:00Z");
const later = new Date("2026-11-21T12:01:00Z");

let bundle: NumberedBundle | undefined;
let states: DeliveryState[];
let progress: DeliveryProgress;

const everywhere: DeliveryState = { delivered: ["a", "b"], pending: [], hasAll: true };

beforeEach(() => {
  bundle = { pem: "the roots", sequence: 7 };
  states = [everywhere];
  progress = new DeliveryProgress(
    () => bundle,
    [0, 1].map((i) => ({
      stateOf: () => states[i] ?? { delivered: [], pending: [], hasAll: true },
      deliver: async () => {},
    })),
  );
});

test("a bundle counts as delivered since it was first seen everywhere", () => {
  progress.note(first);
  progress.note(later);
  expect(progress.report()).toEqual({
    ready: true,
    sequence: 7,
    since: first,
    delivered: 2,
    pending: [],
    reasons: [],
  });
});

test("a bundle that was missing meanwhile counts as delivered since it came back", () => {
  progress.note(first);
  states = [{ delivered: ["a"], pending: ["b"], hasAll: true }];
  progress.note(first);
  states = [everywhere];
  progress.note(later);
  expect(progress.report().since).toBe(later);
});

test("another bundle counts as delivered since a time of its own", () => {
  progress.note(first);
  bundle = { pem: "other roots", sequence: 8 };
  expect(progress.report()).toMatchObject({ ready: true, since: undefined });
  progress.note(later);
  expect(progress.report()).toMatchObject({ sequence: 8, since: later });
});

const away = { ...everywhere, fault: "the API server did not answer" };

test.each<[string, DeliveryState[], string]>([
  ["the CA has answered", [], "the CA has not answered yet"],
  [
    "the whole cluster has been seen",
    [{ ...everywhere, hasAll: false }],
    "the cluster has not been listed yet",
  ],
  ["the changes of the cluster are seen", [everywhere, away], "the API server did not answer"],
])("nothing is ready before %s", (_, seen, reason) => {
  if (seen.length === 0) bundle = undefined;
  states = seen;
  progress.note(first);
  const report = { ready: false, sequence: bundle?.sequence, since: undefined, reasons: [reason] };
  expect(progress.report()).toMatchObject(report);
});

test("the first of many pending places are named, in all deliveries, and all are counted", () => {
  const pending = Array.from({ length: 12 }, (_, i) => `n${i}`);
  states = [
    { delivered: ["a"], pending: pending.slice(0, 6), hasAll: true },
    { delivered: ["b"], pending: pending.slice(6), hasAll: true },
  ];
  expect(progress.report()).toMatchObject({
    ready: false,
    delivered: 2,
    pending: pending.slice(0, 10),
    reasons: ["12 places do not have the bundle yet"],
  });
});

const now = new Date("2026-11-21T12:00:00Z");
const applied = { pem: "the roots", sequence: 7 };
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
  expect(await applyRoots(send, place, applied, now)).toEqual({
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
  await expect(applyRoots(async () => answer, place, applied, now)).rejects.toMatchObject({
    name: "FetchError",
  });
});
