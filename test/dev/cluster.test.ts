import { readFile, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from "jose";
import { expect, onTestFinished, test } from "vitest";
import { type DevelopmentCluster, startDevelopmentCluster } from "../../dev/cluster/cluster.ts";
import { OperatorError } from "../../src/foundation/errors.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

async function startCluster(folder?: string): Promise<DevelopmentCluster> {
  const cluster = await startDevelopmentCluster({
    port: 0,
    folder: folder ?? (await temporaryFolder()),
  });
  onTestFinished(() => cluster.close());
  return cluster;
}

async function tokenOf({ issuer }: DevelopmentCluster, query: string): Promise<string> {
  const response = await fetch(`${issuer}/token?${query}`);
  expect(response.status).toBe(200);
  return (await response.text()).trimEnd();
}

const httpbin = {
  namespace: "foo",
  serviceAccount: "httpbin",
  audiences: ["istio-ca"],
  expirationSeconds: 600,
};

test("mints tokens that verify under the keys of its OIDC discovery", async () => {
  const { issuer, mintToken } = await startCluster();
  const discovery = await fetch(`${issuer}/.well-known/openid-configuration`);
  const document = (await discovery.json()) as { issuer: string; jwks_uri: string };
  expect(document.issuer).toBe(issuer);
  const keys = createRemoteJWKSet(new URL(document.jwks_uri));
  const { payload } = await jwtVerify(await mintToken(httpbin), keys, {
    issuer,
    audience: "istio-ca",
    algorithms: ["RS256"],
  });
  expect(payload.sub).toBe("system:serviceaccount:foo:httpbin");
});

test("publishes nothing but the public half of its key", async () => {
  const { issuer } = await startCluster();
  const response = await fetch(`${issuer}/openid/v1/jwks`);
  expect(response.headers.get("content-type")).toBe("application/jwk-set+json");
  expect(await response.json()).toEqual({
    keys: [
      {
        use: "sig",
        kty: "RSA",
        alg: "RS256",
        e: "AQAB",
        n: expect.stringMatching(/^[\w-]{342}$/),
        kid: expect.stringMatching(/^[\w-]{43}$/),
      },
    ],
  });
});

test("mints tokens in the form of a kubelet's projected tokens", async () => {
  const cluster = await startCluster();
  const token = await tokenOf(cluster, "namespace=foo&serviceaccount=httpbin");
  expect(decodeProtectedHeader(token)).toEqual({ alg: "RS256", kid: expect.any(String) });
  const claims = decodeJwt(token);
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

test("keeps its key and its objects' uids over a restart, in a file that only its owner can read", async () => {
  const folder = await temporaryFolder();
  const first = await startCluster(folder);
  const before = await first.mintToken(httpbin);
  const second = await startCluster(folder);
  const after = await second.mintToken(httpbin);
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
  const { issuer } = await startCluster();
  const description = await (await fetch(issuer)).text();
  expect(description).toContain(`${issuer}/token?namespace=`);
  const unknown = await fetch(`${issuer}/apis`);
  expect(unknown.status).toBe(404);
  expect(await unknown.text()).toContain(description);
});

function statusFor(issuer: string, path: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(issuer);
    request({ host: "127.0.0.1", port, path, headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on("error", reject)
      .end();
  });
}

test("refuses a request for another host name, as DNS rebinding sends it", async () => {
  const { issuer } = await startCluster();
  const { port } = new URL(issuer);
  expect(await statusFor(issuer, "/", `localhost:${port}`)).toBe(200);
  expect(await statusFor(issuer, "/", `issuer.example.com:${port}`)).toBe(421);
  expect(await statusFor(issuer, "/", "127.0.0.1")).toBe(421);
});

test("survives a request target that is no URL", async () => {
  const { issuer } = await startCluster();
  const { host } = new URL(issuer);
  expect(await statusFor(issuer, "//", host)).toBe(400);
  expect(await statusFor(issuer, "/", host)).toBe(200);
});
