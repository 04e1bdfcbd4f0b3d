import { beforeAll, describe, expect, test } from "vitest";
import { createTokenKey, jwksOf, type TokenKey } from "../testkit/callers/tokens.ts";
import { configurationOf } from "../testkit/configuration.ts";

let one: TokenKey;
let other: TokenKey;

beforeAll(async () => {
  [one, other] = await Promise.all([createTokenKey("ES256", "k1"), createTokenKey("RS256", "k1")]);
});

const issuers = ["https://a.test", "https://b.test", "https://c.test"];

const warningsFor = (...tables: readonly Record<string, unknown>[]): readonly string[] =>
  configurationOf({
    TRUST_DOMAIN: "mesh.test",
    ISSUERS: tables.map((table, i) => ({ issuer: issuers[i], namespaces: ["a"], ...table })),
  }).warnings;

const warning = (later: number, earlier: number): unknown =>
  expect.stringContaining(`${issuers[later]} has a key of ${issuers[earlier]}:`);

describe("a warning names clusters that share a key", () => {
  test("whatever its key id", () => {
    const renamed = { ...one, publicJwk: { ...one.publicJwk, kid: "k2", use: "sig" } };
    const tables = [
      { cluster: "a", jwks: jwksOf(one) },
      { cluster: "b", jwks: jwksOf(other, renamed) },
    ];
    expect(warningsFor(...tables)).toEqual([warning(1, 0)]);
  });

  test("once for two clusters, however many keys they share", () => {
    const jwks = jwksOf(one, other);
    const tables = ["a", "b", "c"].map((cluster) => ({ cluster, jwks }));
    expect(warningsFor(...tables)).toEqual([warning(1, 0), warning(2, 0)]);
  });

  test("when both have the same jwks_uri", () => {
    const jwks_uri = "https://keys.test/jwks";
    const tables = ["a", "b"].map((cluster) => ({ cluster, jwks_uri }));
    expect(warningsFor(...tables)).toEqual([warning(1, 0)]);
  });
});

describe("no warning names", () => {
  test("clusters whose different keys have the same id", () => {
    const tables = [
      { cluster: "a", jwks: jwksOf(one) },
      { cluster: "b", jwks: jwksOf(other) },
      { cluster: "c" },
    ];
    expect(warningsFor(...tables)).toEqual([]);
  });

  test("one cluster with two issuers", () => {
    expect(warningsFor({ jwks: jwksOf(one) }, { jwks: jwksOf(one) })).toEqual([]);
  });
});
