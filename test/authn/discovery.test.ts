import { describe, expect, test } from "vitest";
import { IssuerKeys } from "../../src/authn/issuer-keys.ts";
import { isSafeToFetch } from "../../src/foundation/addresses.ts";
import { DocumentFetch, type JsonFetch } from "../../src/foundation/fetch.ts";
import { Semaphore } from "../../src/foundation/shared-work.ts";
import { sharePromises } from "../../src/node/limits/promise-sharing.ts";
import { NodeFetch } from "../../src/program/http/http-client.ts";
import { createTokenKey } from "../testkit/callers/tokens.ts";
import { startLoopbackServer } from "../testkit/network/loopback-server.ts";
import { refusalOf } from "../testkit/refusal.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";

const fetchJson = DocumentFetch.create({
  fetchTrusting: NodeFetch.trusting,
  fetchTimeoutMilliseconds: hangMilliseconds,
});

const start = new Date("2026-11-21T12:00:00Z");
const query = { algorithm: "ES256", keyId: "first" };
const { publicJwk: first } = await createTokenKey("ES256", "first");

describe("discovery", () => {
  interface Documents {
    readonly issuer?: string;
    readonly jwks_uri?: string;
  }

  async function discover(path: string, documents: (origin: string) => Documents | string) {
    const server = await startLoopbackServer((request, response) => {
      if (request.url?.endsWith("/jwks"))
        return void response.end(JSON.stringify({ keys: [first] }));
      const document = documents(server.origin);
      response.end(typeof document === "string" ? document : JSON.stringify(document));
    });
    const issuer = `${server.origin}${path}`;
    const fetching = {
      fetchJson,
      keyFetchFailed: () => {},
      shareWork: sharePromises,
      waitingCapacity: new Semaphore(1),
    };
    return { server, keys: IssuerKeys.published(issuer, undefined, fetching) };
  }

  test.each([
    ["", "/.well-known/openid-configuration"],
    ["/", "/.well-known/openid-configuration"],
    ["/id/ABC", "/id/ABC/.well-known/openid-configuration"],
    ["/id/ABC/", "/id/ABC/.well-known/openid-configuration"],
  ])("of an issuer that ends with «%s» asks for %s", async (path, asked) => {
    const { server, keys } = await discover(path, (origin) => ({
      issuer: `${origin}${path}`,
      jwks_uri: `${origin}/keys/jwks`,
    }));
    expect(await keys(query, start)).toMatchObject([{ keyId: "first" }]);
    expect(server.requests).toEqual([asked, "/keys/jwks"]);
  });

  test.each<[string, (origin: string) => Documents | string]>([
    ["another issuer", (o) => ({ issuer: "https://a.test", jwks_uri: `${o}/jwks` })],
    ["an issuer with a slash more", (o) => ({ issuer: `${o}/`, jwks_uri: `${o}/jwks` })],
    ["an issuer in upper case", (o) => ({ issuer: o.toUpperCase(), jwks_uri: `${o}/jwks` })],
    ["no issuer", (o) => ({ jwks_uri: `${o}/jwks` })],
    ["no jwks_uri", (o) => ({ issuer: o })],
    ["a relative jwks_uri", (o) => ({ issuer: o, jwks_uri: "/jwks" })],
    ["a jwks_uri over http elsewhere", (o) => ({ issuer: o, jwks_uri: "http://a.test/jwks" })],
    ["a jwks_uri of another scheme", (o) => ({ issuer: o, jwks_uri: "data:,{}" })],
    ["a jwks_uri with a password", (o) => ({ issuer: o, jwks_uri: o.replace("//", "//a:b@") })],
    ["HTML", () => "<html>"],
    ["a list", () => "[]"],
  ])("is refused with %s", async (_, documents) => {
    const { keys, server } = await discover("", documents);
    const refusal = await refusalOf(() => keys(query, start));
    expect(refusal.reason).toBe("key-provider-unreachable");
    expect(server.requests).toEqual(["/.well-known/openid-configuration"]);
  });
});

describe("the keys that a document names", () => {
  /** Answers every request with the document, or with keys. @returns Where keys were looked for. */
  async function lookedFor(issuer: string, jwks_uri: string): Promise<readonly string[]> {
    const asked: string[] = [];
    const answering =
      (reach: string): JsonFetch =>
      async (url) => {
        if (url.endsWith("/openid-configuration")) return { issuer, jwks_uri };
        asked.push(`${reach} ${url}`);
        return { keys: [first] };
      };
    const keys = IssuerKeys.published(issuer, undefined, {
      fetchJson: { anywhere: answering("anywhere"), public: answering("public") },
      keyFetchFailed: (_, { message }) => void asked.push(message),
      shareWork: sharePromises,
      waitingCapacity: new Semaphore(1),
    });
    await Promise.resolve(keys(query, start)).catch(() => {});
    return asked;
  }

  const refused = "points at a private key URL: configure jwks_uri if that is right";

  test.each([
    "http://127.0.0.1:8080/jwks",
    "https://10.0.0.1:6443/openid/v1/jwks",
    "https://vault.vault.svc/jwks",
  ])("are not fetched from %s for a public issuer", async (jwksUri) => {
    expect(await lookedFor("https://issuer.test", jwksUri)).toEqual([refused]);
  });

  test.each(["https://keys.test/jwks", "https://8.8.8.8/jwks", "https://issuer.test:8443/jwks"])(
    "are fetched from %s for a public issuer, if that is at a public address",
    async (jwksUri) => {
      expect(await lookedFor("https://issuer.test", jwksUri)).toEqual([`public ${jwksUri}`]);
    },
  );

  test("are fetched from the issuer's own origin, wherever its name leads", async () => {
    const jwksUri = "https://issuer.test/keys";
    expect(await lookedFor("https://issuer.test/id/1", jwksUri)).toEqual([`anywhere ${jwksUri}`]);
  });

  test.each([
    ["https://kubernetes.default.svc.cluster.local", "https://10.0.0.1:6443/openid/v1/jwks"],
    ["https://kubernetes.default.svc", "https://172.18.0.2:6443/openid/v1/jwks"],
    ["https://kubernetes.default.svc.mesh.example", "https://[fd00::2]:6443/openid/v1/jwks"],
    ["https://10.96.0.1", "https://192.168.1.2:6443/openid/v1/jwks"],
    ["http://127.0.0.1:8788", "http://127.0.0.1:8789/jwks"],
  ])("are fetched for %s, which is of this network, from %s", async (issuer, jwksUri) => {
    expect(await lookedFor(issuer, jwksUri)).toEqual([`anywhere ${jwksUri}`]);
  });
});

describe("keys may be fetched", () => {
  test.each([
    "https://a.test",
    "https://a.test:8443/path?query",
    "http://127.0.0.1:8788/jwks",
    "http://localhost/jwks",
    "http://[::1]:1/jwks",
  ])("from %s", (url) => {
    expect(isSafeToFetch(url)).toBe(true);
  });

  test.each([
    "",
    "a.test",
    "//a.test",
    "http://a.test",
    "http://127.0.0.1.a.test",
    "http://localhost.a.test",
    "http://127.0.0.1@a.test",
    "http://10.0.0.1",
    "https://user@a.test",
    "https://user:password@a.test",
    "https://a.test/#fragment",
    "https://a.test#",
    "ftp://a.test",
    "file:///etc/passwd",
    "data:application/json,{}",
    "javascript:1",
  ])("not from «%s»", (url) => {
    expect(isSafeToFetch(url)).toBe(false);
  });
});
