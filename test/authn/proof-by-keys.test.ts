import { beforeAll, describe, expect, test } from "vitest";
import { createTokenAuthenticator } from "../../src/authn/token-authenticator.ts";
import type { TokenIssuer } from "../../src/authn/token-issuer.ts";
import type { Refusal } from "../../src/foundation/refusal.ts";
import { TrustDomain } from "../../src/pki/spiffe-id.ts";
import { wholeSeconds } from "../../src/pki/x509/validity.ts";
import { tokenIssuer } from "../testkit/callers/token-issuers.ts";
import {
  type Claims,
  createTokenKey,
  encodePart,
  forgeToken,
  mintToken,
  serviceAccountClaims,
  type TokenKey,
} from "../testkit/callers/tokens.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00.500Z");
const trustDomain = TrustDomain.parse("example.org") as TrustDomain;
const issuerA = "https://a.test";
const issuerB = "https://b.test:8443/cluster";

let rsa: TokenKey;
let ellipticCurve: TokenKey;
let otherRsa: TokenKey;
let issuers: TokenIssuer[];

beforeAll(async () => {
  [rsa, ellipticCurve, otherRsa] = await Promise.all([
    createTokenKey("RS256", "a-rsa"),
    createTokenKey("ES256", "a-ec"),
    createTokenKey("RS256", "b-rsa"),
  ]);
  issuers = [
    tokenIssuer(issuerA, [rsa, ellipticCurve]),
    tokenIssuer(issuerB, [otherRsa], { cluster: "remote-1", namespaces: ["team-*", "ops"] }),
  ];
});

const claimsOf = (issuer: string, account = "foo:bar"): Claims =>
  serviceAccountClaims(issuer, account, now);

function authenticate(token: string, clusterIds: readonly string[] = []) {
  const headers = new Headers({ authorization: `Bearer ${token}` });
  for (const clusterId of clusterIds) headers.append("clusterid", clusterId);
  return createTokenAuthenticator(trustDomain, issuers)({ headers }, now);
}

const rejected = (check: string): unknown => ({ reason: "credential-rejected", check });

function refusalOfToken(token: string, clusterIds: readonly string[] = []): Promise<Refusal> {
  return refusalOf(() => authenticate(token, clusterIds));
}

describe("a ServiceAccount token", () => {
  test("names its caller, with the pod and the node that it is bound to", async () => {
    const caller = await authenticate(await mintToken(rsa, claimsOf(issuerA)));
    expect(caller).toEqual({
      spiffeId: "spiffe://example.org/ns/foo/sa/bar",
      account: { namespace: "foo", name: "bar" },
      issuer: issuers[0],
      pod: { name: "bar-0", uid: expect.any(String) },
      node: { name: "node-1", uid: expect.any(String) },
      tokenId: expect.any(String),
      proof: { provedAt: wholeSeconds(now), issuer: issuers[0]?.digest, isImpersonated: false },
    });
    expect(caller.issuer).toBe(issuers[0]);
  });

  test("of another issuer names that issuer's cluster", async () => {
    const token = await mintToken(otherRsa, claimsOf(issuerB, "team-a:web"));
    expect(await authenticate(token)).toMatchObject({
      issuer: { name: issuerB, cluster: "remote-1" },
    });
  });

  test("passes without a key id, and without kubernetes.io claims, as other OIDC issuers write it", async () => {
    const claims = { ...claimsOf(issuerA), "kubernetes.io": undefined };
    const caller = await authenticate(await forgeToken(ellipticCurve, { alg: "ES256" }, claims));
    expect([caller.pod, caller.node]).toEqual([undefined, undefined]);
  });

  test("is refused when it is altered by one character", async () => {
    const [header, , signature] = (await mintToken(rsa, claimsOf(issuerA))).split(".");
    const altered = encodePart(claimsOf(issuerA, "foo:baz"));
    expect(await refusalOfToken(`${header}.${altered}.${signature}`)).toEqual(
      rejected("signature"),
    );
  });
});

describe("the algorithm", () => {
  test("none is refused, without a signature and with one", async () => {
    const unsigned = `${encodePart({ alg: "none" })}.${encodePart(claimsOf(issuerA))}`;
    expect(await refusalOfToken(`${unsigned}.`)).toEqual(rejected("form"));
    expect(await refusalOfToken(`${unsigned}.AAAA`)).toEqual(rejected("key"));
  });

  test("HS256 is refused with the public key as the secret, in each of its forms", async () => {
    const { publicJwk } = rsa;
    const secrets = [JSON.stringify(publicJwk), publicJwk.n ?? ""];
    for (const secret of secrets) {
      const key = await hmacKey(secret);
      const token = await forgeToken(key, { alg: "HS256", kid: "a-rsa" }, claimsOf(issuerA));
      expect(await refusalOfToken(token)).toEqual(rejected("key"));
    }
  });

  test.each([
    ["ES256 for an RSA key", "ES256", "a-rsa"],
    ["RS256 for an elliptic curve key", "RS256", "a-ec"],
    ["ES384 for a P-256 key", "ES384", "a-ec"],
    ["EdDSA for a P-256 key", "EdDSA", "a-ec"],
    ["RS1", "RS1", "a-rsa"],
    ["ES256K", "ES256K", "a-ec"],
    ["lower-case rs256", "rs256", "a-rsa"],
    ["nothing", "", "a-rsa"],
    ["the name of a member that every object has", "constructor", "a-rsa"],
  ])("must be one that the key allows: refuses %s", async (_, alg, kid) => {
    const token = await forgeToken(rsa, { alg, kid }, claimsOf(issuerA));
    expect(await refusalOfToken(token)).toEqual(rejected("key"));
  });

  test.each(["PS256", "RS512"])("%s is refused for a signature of RS256", async (alg) => {
    const token = await forgeToken(rsa, { alg, kid: "a-rsa" }, claimsOf(issuerA));
    expect(await refusalOfToken(token)).toEqual(rejected("signature"));
  });
  async function hmacKey(secret: string): Promise<TokenKey> {
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const octets = new TextEncoder().encode(secret);
    const privateKey = await crypto.subtle.importKey("raw", octets, algorithm, false, ["sign"]);
    return { algorithm: "HS256", privateKey, publicJwk: {} };
  }
});

describe("the signature", () => {
  test("by another issuer's key is refused, under whichever key's id", async () => {
    for (const [kid, check] of [
      ["b-rsa", "key"],
      [undefined, "signature"],
      ["a-rsa", "signature"],
    ] as const) {
      const token = await forgeToken(otherRsa, { alg: "RS256", kid }, claimsOf(issuerA));
      expect(await refusalOfToken(token)).toEqual(rejected(check));
    }
  });

  test("by a key in the token's own header is refused", async () => {
    const mine = await createTokenKey("RS256");
    for (const kid of [undefined, "a-rsa", "mine"]) {
      const jwk = { ...mine.publicJwk, kid };
      const header = { alg: "RS256", kid, jwk, jku: "http://127.0.0.1:1/jwks", x5c: ["AAAA"] };
      const token = await forgeToken(mine, header, claimsOf(issuerA));
      expect(await refusalOfToken(token)).toEqual(rejected(kid === "mine" ? "key" : "signature"));
    }
  });

  test("is verified before any claim but the issuer counts", async () => {
    const token = await forgeToken(otherRsa, { alg: "RS256" }, { iss: issuerA });
    expect(await refusalOfToken(token)).toEqual(rejected("signature"));
  });
});

describe("the issuer", () => {
  test.each<[string, unknown]>([
    ["nobody knows", "https://c.test"],
    ["with a trailing slash", "https://a.test/"],
    ["in upper case", "https://A.test"],
    ["with an upper-case scheme", "HTTPS://a.test"],
    ["over http", "http://a.test"],
    ["with its default port", "https://a.test:443"],
    ["with a dot at the end", "https://a.test."],
    ["with a look-alike letter (Cyrillic а)", "https://\u0430.test"],
    ["in full-width letters", "https://\uff41.test"],
    ["with a space", "https://a.test "],
    ["with a NUL", "https://a.test\u0000"],
    ["with a path", "https://a.test/.."],
    ["with a user", "https://a.test@evil.test"],
    ["that is empty", ""],
    ["in a list", [issuerA]],
    ["that is a number", 1],
    ["that is null", null],
    ["that is missing", undefined],
    ["that every object has", "__proto__"],
  ])("is refused %s", async (_, iss) => {
    const token = await mintToken(rsa, { ...claimsOf(issuerA), iss });
    expect(await refusalOfToken(token)).toEqual(rejected("issuer"));
  });
});

test("refuses everybody when no issuer is trusted", async () => {
  const token = await mintToken(rsa, claimsOf(issuerA));
  const headers = new Headers({ authorization: `Bearer ${token}` });
  const refusal = await refusalOf(() =>
    createTokenAuthenticator(trustDomain, [])({ headers }, now),
  );
  expect(refusal).toEqual(rejected("issuer"));
});
