import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type DevelopmentCluster, startDevelopmentCluster } from "../../dev/cluster/cluster.ts";
import { lastingFolder } from "../testkit/temporary-folder.ts";

let folder: string;
let cluster: DevelopmentCluster;

beforeAll(async () => {
  folder = await lastingFolder();
  cluster = await startDevelopmentCluster({ port: 0, folder });
});

afterAll(async () => {
  await cluster.close();
});

const longest = { label: "a".repeat(63), subdomain: `${"a".repeat(126)}.${"b".repeat(126)}` };

describe("GET /token", () => {
  const get = (query: string) => fetch(`${cluster.issuer}/token?${query}`);

  test.each<[string, string, object]>([
    ["the shortest", "namespace=a&serviceaccount=b", { sub: "system:serviceaccount:a:b" }],
    [
      "the longest names",
      `namespace=${longest.label}&serviceaccount=${longest.subdomain}`,
      { sub: `system:serviceaccount:${longest.label}:${longest.subdomain}` },
    ],
    ["one audience", "namespace=a&serviceaccount=b&audience=x", { aud: ["x"] }],
    ["two audiences", "namespace=a&serviceaccount=b&audience=x&audience=y", { aud: ["x", "y"] }],
  ])("answers with a token for %s", async (_, query, claims) => {
    const response = await get(query);
    expect(response.headers.get("content-type")).toMatch(/^text\/plain/);
    const text = await response.text();
    expect(text.at(-1)).toBe("\n");
    expect(decodeJwt(text.trimEnd())).toMatchObject(claims);
  });

  test("sets the requested lifetime", async () => {
    const response = await get("namespace=a&serviceaccount=b&expirationSeconds=600");
    const { exp = 0, iat = 0 } = decodeJwt(await response.text());
    expect(exp - iat).toBe(600);
  });

  test.each([
    ["no namespace", "serviceaccount=b", "namespace"],
    ["no service account", "namespace=a", "serviceaccount"],
    ["an empty name", "namespace=&serviceaccount=b", "namespace"],
    ["a namespace in upper case", "namespace=Foo&serviceaccount=b", "namespace"],
    ["a namespace with a dot", "namespace=a.b&serviceaccount=b", "namespace"],
    ["a namespace of 64 characters", `namespace=${"a".repeat(64)}&serviceaccount=b`, "namespace"],
    ["a name with a colon", "namespace=a&serviceaccount=b:c", "serviceaccount"],
    ["a name with a slash", "namespace=a&serviceaccount=b%2Fc", "serviceaccount"],
    ["a name that ends in a hyphen", "namespace=a&serviceaccount=b-", "serviceaccount"],
    ["a name with a newline", "namespace=a&serviceaccount=b%0A", "serviceaccount"],
    ["a name of 254 characters", `namespace=a&serviceaccount=${"b".repeat(254)}`, "serviceaccount"],
    ["a repeated parameter", "namespace=a&namespace=c&serviceaccount=b", "namespace"],
    ["an unknown parameter", "namespace=a&serviceaccount=b&serviceAccount=c", "serviceAccount"],
    ["an empty audience", "namespace=a&serviceaccount=b&audience=", "audience"],
    ["seconds below ten minutes", "namespace=a&serviceaccount=b&expirationSeconds=599", "600"],
    ["seconds in hex", "namespace=a&serviceaccount=b&expirationSeconds=0xfff", "expirationSeconds"],
    ["17 audiences", `namespace=a&serviceaccount=b${"&audience=x".repeat(17)}`, "audience"],
  ])("refuses %s, and says where", async (_, query, place) => {
    const response = await get(query);
    expect(response.status).toBe(400);
    expect(await response.text()).toContain(place);
  });
});

describe("TokenRequest", () => {
  const post = (path: string, body: unknown) =>
    fetch(`${cluster.issuer}/api/v1/namespaces/${path}/token`, {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  const path = "foo/serviceaccounts/httpbin";

  test("answers with the token in its status", async () => {
    const spec = { audiences: ["istio-ca"], expirationSeconds: 43_200 };
    const response = await post(path, { spec });
    expect(response.status).toBe(201);
    const answer = (await response.json()) as { status: { token: string } };
    const claims = decodeJwt(answer.status.token);
    expect(claims.sub).toBe("system:serviceaccount:foo:httpbin");
    expect((claims.exp ?? 0) - (claims.iat ?? 0)).toBe(43_200);
    expect(answer).toMatchObject({
      kind: "TokenRequest",
      apiVersion: "authentication.k8s.io/v1",
      metadata: { name: "httpbin", namespace: "foo" },
      spec,
      status: { expirationTimestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]{8}Z$/) },
    });
  });

  test("takes the request of kubectl, with the defaults of an API server", async () => {
    const response = await post(path, {
      kind: "TokenRequest",
      apiVersion: "authentication.k8s.io/v1",
      metadata: { creationTimestamp: null },
      spec: { audiences: null, expirationSeconds: null, boundObjectRef: null },
      status: { token: "", expirationTimestamp: null },
    });
    const { status } = (await response.json()) as { status: { token: string } };
    expect(decodeJwt(status.token).aud).toEqual([cluster.issuer]);
  });

  test("binds the token to the named pod", async () => {
    const boundObjectRef = { kind: "Pod", apiVersion: "v1", name: "ztunnel-x", uid: "some-uid" };
    const response = await post(path, { spec: { boundObjectRef } });
    const { status } = (await response.json()) as { status: { token: string } };
    expect(decodeJwt(status.token)["kubernetes.io"]).toMatchObject({
      pod: { name: "ztunnel-x", uid: "some-uid" },
    });
  });

  test.each<[string, string, unknown, number]>([
    ["a body that is not JSON", path, "{", 400],
    ["a body without spec", path, {}, 400],
    ["another kind", path, { kind: "TokenReview", spec: {} }, 400],
    ["an unknown field of spec", path, { spec: { audience: "istio-ca" } }, 400],
    ["seconds that are no integer", path, { spec: { expirationSeconds: 600.5 } }, 400],
    ["seconds beyond 2^32", path, { spec: { expirationSeconds: 2 ** 32 + 1 } }, 400],
    ["a bound object that is no pod", path, { spec: { boundObjectRef: { kind: "Secret" } } }, 400],
    ["a namespace that cannot be", "a.b/serviceaccounts/httpbin", { spec: {} }, 400],
    ["a name that cannot be", "foo/serviceaccounts/http_bin", { spec: {} }, 400],
    ["an encoded slash in a name", "foo/serviceaccounts/a%2Fb", { spec: {} }, 400],
    ["a body of 17 KiB", path, JSON.stringify({ spec: {}, x: "x".repeat(17 * 1024) }), 413],
  ])("refuses %s", async (_, target, body, status) => {
    const response = await post(target, body);
    expect(response.status).toBe(status);
  });
});
