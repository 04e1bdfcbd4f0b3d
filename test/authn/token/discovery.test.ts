import type { JWK } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import { publishedKeys } from "../../../src/authn/token/issuer-keys.ts";
import { isSafeToFetch } from "../../../src/foundation/base-url.ts";
import { createJsonFetch } from "../../../src/foundation/json-fetch.ts";
import { createWaitingRoom } from "../../../src/foundation/shared-work.ts";
import { fetchTrusting } from "../../../src/host/node-fetch.ts";
import { sharePromises } from "../../../src/host/promise-sharing.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto-provider.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { refusalOf } from "../../testkit/refusal.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const fetchJson = createJsonFetch(fetchTrusting(undefined), hangMilliseconds);

const start = new Date("2026-11-21T12:00:00Z");
const query = { algorithm: "ES256", keyId: "first" };
let first: JWK;

beforeAll(async () => {
  first = (await createTokenKey("ES256", "first")).publicJwk;
});

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
    const location = { kind: "discovery", issuer } as const;
    const fetching = {
      fetchJson,
      keyFetchFailed: () => {},
      cryptoProvider: webCryptoProvider,
      shareWork: sharePromises,
      waitingRoom: createWaitingRoom(1),
    };
    return { server, keys: publishedKeys(issuer, location, fetching) };
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
