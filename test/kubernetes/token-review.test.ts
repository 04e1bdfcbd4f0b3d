import { expect, test } from "vitest";
import type { KubernetesRequest } from "../../src/kubernetes/client.ts";
import { reviewToken } from "../../src/kubernetes/cluster-api.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00Z");
const apiVersion = "authentication.k8s.io/v1";
const kind = "TokenReview";

const reviewedAs = (answer: unknown) =>
  reviewToken({ cluster: "a", send: async () => answer }, "token", ["istio-ca"], now);

test("sends the token and the audiences, and gives the decision", async () => {
  const requests: KubernetesRequest[] = [];
  const status = {
    authenticated: true,
    error: "",
    audiences: ["istio-ca"],
    user: { username: "u", groups: ["g"], extra: { e: ["1"] } },
  };
  const send = async (request: KubernetesRequest) => {
    requests.push(request);
    return { ...request.body, status };
  };
  expect(await reviewToken({ cluster: "a", send }, "token", ["istio-ca"], now)).toEqual(status);
  expect(requests).toEqual([
    {
      method: "POST",
      path: "/apis/authentication.k8s.io/v1/tokenreviews",
      body: { apiVersion, kind, spec: { token: "token", audiences: ["istio-ca"] } },
    },
  ]);
});

test("takes what Go omits as false and empty", async () => {
  expect(await reviewedAs({ apiVersion, kind, status: {} })).toEqual({
    authenticated: false,
    error: "",
    audiences: [],
    user: { username: "", groups: [], extra: {} },
  });
});

const good = { apiVersion, kind, status: {} };

test.each<[string, unknown]>([
  ["nothing, by status 404", undefined],
  ["a text", "yes"],
  ["an object", {}],
  ["another version", { ...good, apiVersion: "authentication.k8s.io/v1beta1" }],
  ["another kind", { ...good, kind: "SubjectAccessReview" }],
  ["no status", { ...good, status: undefined }],
  ["a text that says yes", { ...good, status: { authenticated: "true" } }],
  ["a user name of any length", { ...good, status: { user: { username: "u".repeat(1025) } } }],
  ["many groups", { ...good, status: { user: { groups: Array.from({ length: 65 }, () => "g") } } }],
  ["an extra value that is no list", { ...good, status: { user: { extra: { e: "1" } } } }],
])("an answer that is %s is no decision", async (_, answer) => {
  expect(await refusalOf(() => reviewedAs(answer))).toEqual({
    reason: "cluster-unreachable",
    cluster: "a",
  });
});
