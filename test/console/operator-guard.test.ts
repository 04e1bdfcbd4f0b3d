import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { IssuerKeys } from "../../src/authn/issuer-keys.ts";
import { isFromElsewhere, OperatorGuard } from "../../src/console/operator-guard.ts";
import { portGuard } from "../../src/console/port-guard.ts";
import { KeySet } from "../../src/pki/jose/key-set.ts";
import {
  type Claims,
  createTokenKey,
  forgeToken,
  jwksOf,
  mintToken,
  type TokenKey,
} from "../testkit/callers/tokens.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-11-22T12:00:00Z");
const nowSeconds = now.getTime() / 1000;
const token = "operators-token-0123456789-abcdefgh";
const hashed = "another-token-0123456789-abcdefghij";
const withColon = "third:token-0123456789-abcdefghij";
const sha256 = createHash("sha256").update(hashed).digest("hex");
const basic = (name: string, password: string): string => `Basic ${btoa(`${name}:${password}`)}`;

describe("a guard with tokens", () => {
  const guard = OperatorGuard.create(
    { tokens: [{ token }, { sha256 }, { token: withColon }], access: undefined },
    undefined,
  );
  const ask = (authorization?: string) =>
    guard.require(new Headers(authorization === undefined ? {} : { authorization }), now);

  test.each([
    ["a bearer token", `Bearer ${token}`],
    ["a bearer token in another case of the scheme", `bearer ${token}`],
    ["a bearer token whose digest is configured", `Bearer ${hashed}`],
    ["the password of a browser", basic("operator", token)],
    ["a password without a name", basic("", hashed)],
    ["a password with a colon", basic("operator", withColon)],
  ])("lets in %s", async (_, authorization) => {
    await expect(ask(authorization)).resolves.toBeUndefined();
  });

  test.each([
    ["nothing", undefined, { reason: "credential-missing" }],
    ["another token", `Bearer ${token}x`, { reason: "credential-rejected", check: "key" }],
    ["the beginning of a token", `Bearer ${token.slice(0, -1)}`, { check: "key" }],
    ["the digest itself", `Bearer ${sha256}`, { check: "key" }],
    ["the digest as it is configured", `Bearer sha256:${sha256}`, { check: "key" }],
    ["a token as the name", basic(token, ""), { check: "key" }],
    ["a password with a line break", basic("a", `${token}\n`), { check: "key" }],
    ["no base64", "Basic %%%", { check: "form" }],
    ["a name without a password", `Basic ${btoa("operator")}`, { check: "form" }],
    ["another scheme", `Digest ${token}`, { check: "form" }],
    ["two credentials", `Bearer ${token}, Bearer ${token}`, { check: "form" }],
    ["an empty header", "", { check: "form" }],
    ["a long header", `Bearer ${"x".repeat(4096)}`, { check: "form" }],
  ])("keeps out %s", async (_, authorization, refusal) => {
    expect(await refusalOf(() => ask(authorization))).toMatchObject(refusal);
  });
});

describe("a guard with Cloudflare Access", () => {
  const team = "https://example.cloudflareaccess.com";
  const audience = "f8a5".repeat(16);
  let key: TokenKey;
  let stranger: TokenKey;

  beforeAll(async () => {
    [key, stranger] = await Promise.all([
      createTokenKey("RS256", "a1"),
      createTokenKey("RS256", "a1"),
    ]);
  });

  const claims = (changes: Claims = {}): Claims => ({
    iss: team,
    aud: [audience],
    exp: nowSeconds + 60,
    iat: nowSeconds - 60,
    nbf: nowSeconds - 60,
    type: "app",
    email: "operator@example.com",
    sub: "7335d417-61da-459d-899c-0a01c76a2f94",
    ...changes,
  });

  async function ask(shown: string, other: Readonly<Record<string, string>> = {}): Promise<void> {
    const keySet = KeySet.parse(jwksOf(key)) ?? [];
    const guard = OperatorGuard.create(
      { tokens: [], access: { team, audience } },
      IssuerKeys.pinned({ usable: keySet, unusable: [] }),
    );
    await guard.require(new Headers({ "cf-access-jwt-assertion": shown, ...other }), now);
  }

  test("lets in a person whom the team's Access has let in", async () => {
    await expect(ask(await mintToken(key, claims()))).resolves.toBeUndefined();
  });

  test("does not look at another credential, where no token is configured", async () => {
    const authorization = "Bearer of the application's own";
    await expect(ask(await mintToken(key, claims()), { authorization })).resolves.toBeUndefined();
  });

  test.each<[string, Claims, string]>([
    ["of another team", { iss: "https://other.cloudflareaccess.com" }, "issuer"],
    ["without an issuer", { iss: undefined }, "issuer"],
    ["for another application", { aud: ["0".repeat(64)] }, "audience"],
    ["without an audience", { aud: undefined }, "form"],
    ["that has expired", { exp: nowSeconds }, "time"],
    ["without an end", { exp: undefined }, "form"],
    ["that is not valid yet", { nbf: nowSeconds + 120 }, "time"],
    ["of the organisation, not of an application", { type: "org" }, "subject"],
    ["of more than 8 KiB", { email: "x".repeat(8192) }, "form"],
  ])("keeps out a token %s", async (_, changes, check) => {
    const shown = await mintToken(key, claims(changes));
    expect(await refusalOf(() => ask(shown))).toMatchObject({
      reason: "credential-rejected",
      check,
    });
  });

  test("keeps out a token that another key has signed", async () => {
    const shown = await mintToken(stranger, claims());
    expect(await refusalOf(() => ask(shown))).toMatchObject({ check: "signature" });
  });

  test.each(["none", "HS256", "ES256"])("keeps out a token of algorithm %s", async (alg) => {
    const shown = await forgeToken(key, { alg, kid: "a1" }, claims());
    expect(await refusalOf(() => ask(shown))).toMatchObject({ check: "algorithm" });
  });

  test.each(["", "x", "a.b", "a.b.c", `${"a".repeat(9000)}.b.c`])(
    "keeps out junk: %#",
    async (junk) => {
      expect(await refusalOf(() => ask(junk))).toMatchObject({ check: "form" });
    },
  );
});

describe("the guard of a port without credentials", () => {
  const ask = (host?: string) => portGuard.require(new Headers(host === undefined ? {} : { host }));

  test.each(["127.0.0.1:15014", "10.0.3.7", "localhost:15014", "[::1]:15014", "[fd00::7]"])(
    "lets in who asks for %s",
    async (host) => {
      await expect(ask(host)).resolves.toBeUndefined();
    },
  );

  test("lets in who names no host, which no browser does", async () => {
    await expect(ask()).resolves.toBeUndefined();
  });

  test.each([
    "attacker.example",
    "localhost.attacker.example",
    "127.0.0.1.attacker.example:15014",
    "rampart.rampart.svc",
    "",
    "127.0.0.1, attacker.example",
  ])("keeps out who asks for %s", async (host) => {
    expect(await refusalOf(() => ask(host))).toMatchObject({ reason: "credential-missing" });
  });
});

test.each([
  [{}, false],
  [{ "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors" }, false],
  [{ "sec-fetch-site": "none", "sec-fetch-mode": "navigate" }, false],
  [{ "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" }, false],
  [{ "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" }, true],
  [{ "sec-fetch-site": "same-site", "sec-fetch-mode": "cors" }, true],
])("tells a request of another site's page: %j", (headers, isElsewhere) => {
  expect(isFromElsewhere(new Headers(headers))).toBe(isElsewhere);
});
