import { CompactSign, SignJWT } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import { CaError } from "../../../src/foundation/errors.ts";
import { JwtSvid, jwtSvidAlgorithms } from "../../../src/pki/jose/jwt-svid.ts";
import { JwtSvidKeys } from "../../../src/pki/jose/jwt-svid-keys.ts";
import type { KeySet } from "../../../src/pki/jose/key-set.ts";
import type { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { verifiedByNode } from "../../testkit/callers/token-oracle.ts";
import { createTokenKey, type TokenKey } from "../../testkit/callers/tokens.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00Z");
const seconds = now.getTime() / 1000;
const audience = "https://vault.test";
const subject = "spiffe://cluster.local/ns/foo/sa/bar";
const good = {
  sub: subject,
  aud: [audience],
  exp: seconds + 300,
  iat: seconds,
  iss: "https://ca.test",
};

const keys = new Map<string, TokenKey>();
let trusted: KeySet = [];
beforeAll(async () => {
  for (const algorithm of ["ES256", "RS256", "PS256", "ES384", "EdDSA"]) {
    keys.set(algorithm, await createTokenKey(algorithm, `key-${algorithm}`));
  }
  const published = [...keys.values()].map((key) => ({ ...key.publicJwk, use: "jwt-svid" }));
  trusted = JwtSvidKeys.in(published);
});

const keysOf = (domain: TrustDomain) => (domain === "cluster.local" ? trusted : undefined);

function sign(
  claims: Readonly<Record<string, unknown>> = {},
  header: Readonly<Record<string, unknown>> = {},
  algorithm: string = "ES256",
): Promise<string> {
  const key = keys.get(algorithm);
  if (!key) throw new Error("no key");
  return new SignJWT({ ...good, ...claims })
    .setProtectedHeader({ alg: algorithm, kid: `key-${algorithm}`, ...header })
    .sign(key.privateKey);
}

const verdict = async (token: string): Promise<unknown> =>
  JwtSvid.validate(token, audience, keysOf, now).then(
    ({ spiffeId }) => spiffeId,
    (error: unknown) => {
      const refusal = error instanceof CaError ? error.refusal : undefined;
      return refusal?.reason === "credential-rejected" ? refusal.check : error;
    },
  );

describe("a JWT-SVID", () => {
  test.each(["ES256", "ES384", "RS256", "PS256"])(
    "passes with %s, as node:crypto verifies it",
    async (algorithm) => {
      const token = await sign({}, {}, algorithm);
      expect(await verdict(token)).toBe(subject);
      const published = [...keys.values()].map(({ publicJwk }) => publicJwk);
      expect(verifiedByNode(token, { keys: published })?.claims["sub"]).toBe(subject);
    },
  );

  test.each([
    ["typ JWT", {}, { typ: "JWT" }],
    ["typ JOSE", {}, { typ: "JOSE" }],
    ["an audience beside the own one", { aud: ["other", audience] }, {}],
    ["its audience as a text", { aud: audience }, {}],
    ["a subject of another form than Istio's", { sub: "spiffe://cluster.local/db" }, {}],
    ["an iat a minute ahead", { iat: seconds + 60 }, {}],
  ])("passes with %s", async (_, claims, header) => {
    expect(await verdict(await sign(claims, header))).toMatch(/^spiffe:/);
  });

  test.each([
    ["another audience", { aud: ["https://vault.test/"] }, {}, "audience"],
    ["an audience that only begins alike", { aud: ["https://vault.test.evil"] }, {}, "audience"],
    ["no audience", { aud: undefined }, {}, "form"],
    ["an empty list of audiences", { aud: [] }, {}, "audience"],
    ["no text as audience", { aud: [audience, 7] }, {}, "form"],
    ["no end", { exp: undefined }, {}, "form"],
    ["an end as a text", { exp: `${seconds + 300}` }, {}, "form"],
    ["an end that is now", { exp: seconds }, {}, "time"],
    ["a beginning beyond the leeway", { nbf: seconds + 61 }, {}, "time"],
    ["an issue beyond the leeway", { iat: seconds + 61 }, {}, "time"],
    ["no subject", { sub: undefined }, {}, "subject"],
    ["two subjects", { sub: [subject, subject] }, {}, "subject"],
    ["two subjects in a text", { sub: `${subject},${subject}` }, {}, "subject"],
    ["the trust domain as subject", { sub: "spiffe://cluster.local" }, {}, "subject"],
    ["an upper-case trust domain", { sub: "spiffe://Cluster.local/a" }, {}, "subject"],
    ["a port in its trust domain", { sub: "spiffe://cluster.local:1/a" }, {}, "subject"],
    ["a relative path", { sub: "spiffe://cluster.local/../a" }, {}, "subject"],
    ["a ServiceAccount as subject", { sub: "system:serviceaccount:foo:bar" }, {}, "subject"],
    ["a foreign trust domain", { sub: "spiffe://other.test/ns/foo/sa/bar" }, {}, "issuer"],
    ["an issuer that is no text", { iss: 7 }, {}, "form"],
    ["a token id that is no text", { jti: ["a"] }, {}, "form"],
    ["half a character in a claim", { more: { a: ["\ud800"] } }, {}, "form"],
    ["half a character in the name of a claim", { "\udc00": 1 }, {}, "form"],
    ["no key id", {}, { kid: undefined }, "key"],
    ["an empty key id", {}, { kid: "" }, "key"],
    ["an unknown key id", {}, { kid: "key-0" }, "key"],
    ["the id of a key of another kind", {}, { kid: "key-RS256" }, "key"],
    ["typ jwt in lower case", {}, { typ: "jwt" }, "form"],
    ["the typ of another token", {}, { typ: "at+jwt" }, "form"],
    ["an extension", {}, { crit: ["exp"] }, "form"],
  ])("is refused with %s", async (_, claims, header, check) => {
    const token = "crit" in header ? await forge(header) : await sign(claims, header);
    expect(await verdict(token)).toBe(check);
  });

  test.each(["none", "HS256", "EdDSA", "ES256K", "es256"])(
    "is refused with alg %s",
    async (alg) => {
      expect(await verdict(await forge({ alg }))).toBe("algorithm");
    },
  );

  test("is refused when its signature is of another key, cut or empty", async () => {
    const other = await createTokenKey("ES256", "key-ES256");
    const token = await new SignJWT(good)
      .setProtectedHeader({ alg: "ES256", kid: "key-ES256" })
      .sign(other.privateKey);
    expect(await verdict(token)).toBe("signature");
    expect(await verdict(token.slice(0, -2))).toBe("signature");
    expect(await verdict(`${token.slice(0, token.lastIndexOf("."))}.`)).toBe("form");
  });

  test("is refused with a number that no other language holds", async () => {
    const header = { alg: "ES256", kid: "key-ES256" };
    const key = keys.get("ES256");
    if (!key) throw new Error("no key");
    for (const [number, said] of [
      ["1e999", "form"],
      ["1e9", subject],
    ]) {
      const text = JSON.stringify({ ...good, more: ["n"] }).replace('"n"', String(number));
      const token = await new CompactSign(new TextEncoder().encode(text))
        .setProtectedHeader(header)
        .sign(key.privateKey);
      expect(await verdict(token)).toBe(said);
    }
  });

  test("is refused beyond 8 KiB, in parts and as something else", async () => {
    expect(await verdict(await sign({ more: "x".repeat(8192) }))).toBe("form");
    for (const text of ["", ".", "a.b", "a.b.c.d", `${await sign()}.e30`, "x".repeat(9000)]) {
      expect(await verdict(text)).toBe("form");
    }
  });

  test("is read without its key by whoever asked for it", async () => {
    const mute = await sign({ aud: [] });
    expect(await refusalOf(() => JwtSvid.read(mute, now))).toMatchObject({ check: "audience" });
    expect(JwtSvid.read(await forge({}), now)).toMatchObject({
      spiffeId: subject,
      trustDomain: "cluster.local",
      audiences: [audience],
      expiresAt: new Date((seconds + 300) * 1000),
      keyId: "key-ES256",
    });
  });
});

/** A token of this header with a signature that nobody made. */
async function forge(header: Readonly<Record<string, unknown>>): Promise<string> {
  const parts = [{ alg: "ES256", kid: "key-ES256", ...header }, good].map((part) =>
    Buffer.from(JSON.stringify(part)).toString("base64url"),
  );
  return `${parts.join(".")}.AAAA`;
}

test("the keys of a bundle are those for JWT-SVIDs, of a kind that has one, with an id", () => {
  const jwk = keys.get("ES256")?.publicJwk;
  const svid = { ...jwk, use: "jwt-svid" };
  const found = JwtSvidKeys.in([
    svid,
    { ...svid, use: "x509-svid" },
    { ...svid, use: "sig" },
    jwk,
    { ...svid, kid: undefined },
    { ...svid, kid: "" },
    { ...svid, alg: "ES384" },
    { ...svid, crv: "secp256k1" },
    { ...keys.get("EdDSA")?.publicJwk, use: "jwt-svid" },
    { kty: "oct", k: "AAAA", kid: "k", use: "jwt-svid" },
    null,
    "key",
  ]);
  expect(found.map(({ keyId }) => keyId)).toEqual(["key-ES256"]);
  expect(JSON.stringify(found)).not.toContain('"d"');
});

test("an allowed algorithm is neither symmetric, nor none, nor Edwards", () => {
  expect(jwtSvidAlgorithms.toSorted().join()).toBe(
    "ES256,ES384,ES512,PS256,PS384,PS512,RS256,RS384,RS512",
  );
});
