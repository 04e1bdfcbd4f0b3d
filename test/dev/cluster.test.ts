import { readFile, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from "jose";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type DevelopmentCluster, startDevelopmentCluster } from "../../dev/cluster/cluster.ts";
import { OperatorError } from "../../src/foundation/errors.ts";
import { lastingFolder, temporaryFolder } from "../testkit/temporary-folder.ts";

let cluster: DevelopmentCluster;

beforeAll(async () => {
  cluster = await startDevelopmentCluster({ port: 0, folder: await lastingFolder() });
  return () => cluster.close();
});

const httpbin = {
  namespace: "foo",
  serviceAccount: "httpbin",
  audiences: ["istio-ca"],
  expirationSeconds: 600,
};

test("mints tokens that verify under the keys of its OIDC discovery, which are public halves", async () => {
  const { issuer, mintToken } = cluster;
  const discovery = await fetch(`${issuer}/.well-known/openid-configuration`);
  const document = (await discovery.json()) as { issuer: string; jwks_uri: string };
  expect(document.issuer).toBe(issuer);
  const { payload } = await jwtVerify(
    await mintToken(httpbin),
    createRemoteJWKSet(new URL(document.jwks_uri)),
    { issuer, audience: "istio-ca", algorithms: ["RS256"] },
  );
  expect(payload.sub).toBe("system:serviceaccount:foo:httpbin");
  const response = await fetch(document.jwks_uri);
  expect(response.headers.get("content-type")).toBe("application/jwk-set+json");
  const [n, kid] = [expect.stringMatching(/^[\w-]{342}$/), expect.stringMatching(/^[\w-]{43}$/)];
  expect(await response.json()).toEqual({
    keys: [{ use: "sig", kty: "RSA", alg: "RS256", e: "AQAB", n, kid }],
  });
});

test("keeps its key and its objects' uids over a restart, in a file that only its owner can read", async () => {
  const folder = await temporaryFolder();
  const mint = async (): Promise<string> => {
    const started = await startDevelopmentCluster({ port: 0, folder });
    onTestFinished(() => started.close());
    return started.mintToken(httpbin);
  };
  const [before, after] = [await mint(), await mint()];
  const pod = (token: string) => (decodeJwt(token)["kubernetes.io"] as { pod: unknown }).pod;
  expect(decodeProtectedHeader(after)).toEqual(decodeProtectedHeader(before));
  expect(pod(after)).toEqual(pod(before));
  expect((await stat(join(folder, "service-account-key.pem"))).mode & 0o777).toBe(0o600);
});

test("refuses to replace a key file that it cannot read", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "service-account-key.pem");
  await writeFile(path, "not a key");
  await expect(startDevelopmentCluster({ port: 0, folder })).rejects.toThrow(OperatorError);
  expect(await readFile(path, "utf8")).toBe("not a key");
});

test("describes its endpoints, and answers an unknown path with the same text", async () => {
  const description = await (await fetch(cluster.issuer)).text();
  expect(description).toContain(`${cluster.issuer}/token?namespace=`);
  const unknown = await fetch(`${cluster.issuer}/apis`);
  expect(unknown.status).toBe(404);
  expect(await unknown.text()).toContain(description);
});

test.each([
  ["another host name, as DNS rebinding sends it", "/", "issuer.example.com:", 421],
  ["a host without its port", "/", "127.0.0.1", 421],
  ["a target that is no URL", "//", "127.0.0.1:", 400],
  ["nothing wrong", "/", "localhost:", 200],
])("answers a request with %s", async (_, path, name, status) => {
  const { port } = new URL(cluster.issuer);
  const host = name.replace(/:$/, `:${port}`);
  const answered = new Promise((resolve, reject) => {
    request({ host: "127.0.0.1", port, path, headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on("error", reject)
      .end();
  });
  expect(await answered).toBe(status);
});

const longest = { label: "a".repeat(63), subdomain: `${"a".repeat(126)}.${"b".repeat(126)}` };

describe("GET /token", () => {
  const get = (query: string) => fetch(`${cluster.issuer}/token?${query}`);

  test("answers with a token in the form of a kubelet's projected tokens", async () => {
    const response = await get("namespace=foo&serviceaccount=httpbin");
    expect(response.headers.get("content-type")).toMatch(/^text\/plain/);
    const text = await response.text();
    expect(text.at(-1)).toBe("\n");
    expect(decodeProtectedHeader(text)).toEqual({ alg: "RS256", kid: expect.any(String) });
    const claims = decodeJwt(text.trimEnd());
    const uid = expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-/);
    expect(claims).toEqual({
      aud: ["istio-ca"],
      exp: (claims.iat ?? 0) + 3600,
      iat: expect.any(Number),
      iss: cluster.issuer,
      jti: uid,
      "kubernetes.io": {
        namespace: "foo",
        node: { name: expect.any(String), uid },
        pod: { name: expect.stringMatching(/^httpbin-/), uid },
        serviceaccount: { name: "httpbin", uid },
      },
      nbf: claims.iat,
      sub: "system:serviceaccount:foo:httpbin",
    });
  });

  test.each<[string, string, object]>([
    ["the shortest names", "namespace=a&serviceaccount=b", { sub: "system:serviceaccount:a:b" }],
    [
      "the longest names",
      `namespace=${longest.label}&serviceaccount=${longest.subdomain}`,
      { sub: `system:serviceaccount:${longest.label}:${longest.subdomain}` },
    ],
    ["two audiences", "namespace=a&serviceaccount=b&audience=x&audience=y", { aud: ["x", "y"] }],
  ])("answers with a token for %s", async (_, query, claims) => {
    expect(decodeJwt(await (await get(query)).text())).toMatchObject(claims);
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

  test("answers with a token for the named pod in its status", async () => {
    const boundObjectRef = { kind: "Pod", apiVersion: "v1", name: "ztunnel-x", uid: "some-uid" };
    const spec = { audiences: ["istio-ca"], expirationSeconds: 43_200 };
    const response = await post(path, { spec: { ...spec, boundObjectRef } });
    expect(response.status).toBe(201);
    const answer = (await response.json()) as { status: { token: string } };
    const claims = decodeJwt(answer.status.token);
    expect(claims).toMatchObject({
      sub: "system:serviceaccount:foo:httpbin",
      exp: (claims.iat ?? 0) + 43_200,
      "kubernetes.io": { pod: { name: "ztunnel-x", uid: "some-uid" } },
    });
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
    expect((await post(target, body)).status).toBe(status);
  });
});
