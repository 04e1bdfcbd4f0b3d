import { describe, expect, test } from "vitest";
import { applyRoots, HeldRoots } from "../../src/delivery/root-config-map.ts";
import { FetchError } from "../../src/foundation/fetch.ts";
import type { KubernetesRequest, SendRequest } from "../../src/kubernetes/client.ts";
import { namespaceOf } from "../testkit/kubernetes/watched-api.ts";

const name = "istio-ca-root-cert";

const configMapOf = (namespace: string, pem: string, called = name): object => ({
  metadata: { name: called, namespace, labels: { "istio.io/config": "true" } },
  data: { "root-cert.pem": pem },
});

type Answer = readonly object[] | FetchError;

/** Answers with a page after the other; each but the last of a collection names a next one. */
function serverOf(namespaces: readonly Answer[], configMaps: readonly Answer[]): SendRequest {
  const rest = { namespaces: [...namespaces], configmaps: [...configMaps] };
  return async ({ path }) => {
    const answers = path.includes("/configmaps") ? rest.configmaps : rest.namespaces;
    const items = answers.shift();
    if (!items || items instanceof FetchError) throw items ?? new Error("asked for too much");
    const metadata = { continue: answers.length > 0 ? "next" : "" };
    return { kind: "List", metadata, items };
  };
}

const rootsOf = async (send: SendRequest) => {
  const { namespaces, held } = await HeldRoots.list(send, name, ({ pem }) => pem);
  return { namespaces, held: Object.fromEntries(held) };
};

const expired = new FetchError("gone", { status: 410 });

describe("the roots in a cluster are listed", () => {
  test("by its namespaces and its ConfigMaps", async () => {
    const send = serverOf(
      [[namespaceOf("a"), namespaceOf("kube-public")], [namespaceOf("b")]],
      [
        [configMapOf("a", "one"), configMapOf("a", "another", "mesh-roots")],
        [configMapOf("b", "two"), { kind: "Secret" }, configMapOf("kube-public", "three")],
      ],
    );
    const held = { a: "one", b: "two" };
    expect(await rootsOf(send)).toEqual({ namespaces: ["a", "b"], held });
  });

  test("as they are now, where a list begins anew", async () => {
    const send = serverOf(
      [[namespaceOf("gone"), namespaceOf("a")], expired, [namespaceOf("a")], [namespaceOf("b")]],
      [[configMapOf("a", "old"), configMapOf("b", "old")], expired, [configMapOf("a", "new")]],
    );
    expect(await rootsOf(send)).toEqual({ namespaces: ["a", "b"], held: { a: "new" } });
  });

  test("each namespace once, even where a server repeats it", async () => {
    const send = serverOf([[namespaceOf("a")], [namespaceOf("a")]], [[]]);
    expect(await rootsOf(send)).toEqual({ namespaces: ["a"], held: {} });
  });
});

test.each<[string, readonly Answer[]]>([
  ["no namespace", [[]]],
  ["no namespace that gets roots", [[namespaceOf("kube-public"), namespaceOf("a", "Terminating")]]],
  ["what is no namespace", [[{ kind: "Pod" }]]],
])("a cluster that lists %s is not believed", async (_, namespaces) => {
  await expect(rootsOf(serverOf(namespaces, [[]]))).rejects.toThrow("lists no namespace");
});

test("a cluster that lists more namespaces than any has is not believed", async () => {
  const page = (i: number) => Array.from({ length: 250 }, (_, j) => namespaceOf(`n${250 * i + j}`));
  const send = serverOf(
    Array.from({ length: 201 }, (_, i) => page(i)),
    [[]],
  );
  await expect(rootsOf(send)).rejects.toThrow("lists too many namespaces");
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
