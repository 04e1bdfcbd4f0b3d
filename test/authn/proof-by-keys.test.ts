import { describe, expect, test } from "vitest";
import { createTokenAuthenticator } from "../../src/authn/token-authenticator.ts";
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
} from "../testkit/callers/tokens.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00.500Z");
const trustDomain = TrustDomain.parse("example.org") as TrustDomain;
const issuerA = "https://a.test";
const issuerB = "https://b.test:8443/cluster";

const [rsa, ellipticCurve, otherRsa] = await Promise.all([
  createTokenKey("RS256", "a-rsa"),
  createTokenKey("ES256", "a-ec"),
  createTokenKey("RS256", "b-rsa"),
]);
const issuers = [
  tokenIssuer(issuerA, [rsa, ellipticCurve]),
  tokenIssuer(issuerB, [otherRsa], { cluster: "remote-1", namespaces: ["team-*", "ops"] }),
];

const claimsOf = (issuer: string, account = "foo:bar"): Claims =>
  serviceAccountClaims(issuer, account, now);

function authenticate(token: string) {
  const headers = new Headers({ authorization: `Bearer ${token}` });
  return createTokenAuthenticator(trustDomain, issuers)({ headers }, now);
}

const rejected = (check: string): unknown => ({ reason: "credential-rejected", check });

const refusalOfToken = (token: string) => refusalOf(() => authenticate(token));

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

// Which algorithms a key allows, the tests of JWK Sets say.
test.each(["HS256", "ES256", "RS1", "rs256", "", "constructor"])(
  "the algorithm %j is refused for an RSA key",
  async (alg) => {
    const token = await forgeToken(rsa, { alg, kid: "a-rsa" }, claimsOf(issuerA));
    expect(await refusalOfToken(token)).toEqual(rejected("key"));
  },
);

test("the algorithm none is refused, without a signature and with one", async () => {
  const unsigned = `${encodePart({ alg: "none" })}.${encodePart(claimsOf(issuerA))}`;
  expect(await refusalOfToken(`${unsigned}.`)).toEqual(rejected("form"));
  expect(await refusalOfToken(`${unsigned}.AAAA`)).toEqual(rejected("key"));
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

test.each<[unknown]>(
  [
    ...["https://c.test", "https://a.test/", "https://A.test", "HTTPS://a.test", "http://a.test"],
    ...["https://a.test:443", "https://a.test.", "https://a.test ", "https://a.test\u0000"],
    // Look-alikes: a Cyrillic letter, and one in full width.
    ...["https://\u0430.test", "https://\uff41.test", "https://a.test/..", "https://a.test@b.test"],
    ...["", "__proto__", [issuerA], 1, null, undefined],
  ].map((iss) => [iss]),
)("the issuer %j is refused", async (iss) => {
  const token = await mintToken(rsa, { ...claimsOf(issuerA), iss });
  expect(await refusalOfToken(token)).toEqual(rejected("issuer"));
});

test("refuses everybody when no issuer is trusted", async () => {
  const token = await mintToken(rsa, claimsOf(issuerA));
  const headers = new Headers({ authorization: `Bearer ${token}` });
  const refusal = await refusalOf(() =>
    createTokenAuthenticator(trustDomain, [])({ headers }, now),
  );
  expect(refusal).toEqual(rejected("issuer"));
});
