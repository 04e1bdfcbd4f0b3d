import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { exportJWK } from "jose";
import { describe, expect, test } from "vitest";
import { Secrets } from "../../src/config/secrets.ts";
import { createTokenKey } from "../testkit/callers/tokens.ts";
import {
  configurationOf,
  createKeySets,
  expectOneFault,
  faultsOf,
  issuer,
  randomKek,
  type Values,
} from "../testkit/configuration.ts";

const { publicKeys } = await createKeySets();

describe("KEK", () => {
  // Both characters in which the alphabets of base64 differ.
  const octets = Buffer.from([...randomBytes(26), 0xfb, 0xff, 0xbf, 0xff, 0xff, 0xfe]);
  const base64 = octets.toString("base64");
  const wrapped = (mark: string): string => `k:awskms:///x#AAAA.${mark.repeat(43)}`;

  test.each([
    ["base64", `k:${base64}`],
    ["base64url", `k:${octets.toString("base64url")}`],
    ["base64 without padding", `k:${base64.replace(/=+$/, "")}`],
  ])("may be %s", (_, value) => {
    expect(configurationOf({ KEK: value }).keks).toEqual([
      { id: "k", octets: new Uint8Array(octets) },
    ]);
  });

  test("may be several, newest first", () => {
    const value = `${randomKek("2026-11")}, ${randomKek("2026-05")},${randomKek("old_1.x")}`;
    expect(configurationOf({ KEK: value }).keks.map(({ id }) => id)).toEqual([
      "2026-11",
      "2026-05",
      "old_1.x",
    ]);
  });

  test("may be one in two key services", () => {
    const [kek, ...others] = configurationOf({ KEK: `${wrapped("A")},${wrapped("A")}` }).keks;
    expect(others).toEqual([]);
    expect(kek).toMatchObject({ id: "k", wrappings: [{}, {}] });
  });

  test.each<[string, unknown]>([
    ["empty", ""],
    ["without an id", base64],
    ["with an empty id", `:${base64}`],
    ["with an id without end", `${"k".repeat(65)}:${base64}`],
    ["with an id of other characters", `k 1:${base64}`],
    ["of 31 octets", `k:${octets.toString("base64", 0, 31)}`],
    ["of 33 octets", `k:${Buffer.concat([octets, octets]).toString("base64", 0, 33)}`],
    ["hexadecimal", `k:${octets.toString("hex")}`],
    ["with a comma at its end", `k:${base64},`],
    ["with one bad entry among good ones", `k:${base64},j:AAAA`],
    ["with an id twice", `k:${base64},${randomKek("k")}`],
    ["with an id for two KEKs in key services", `${wrapped("A")},${wrapped("E")}`],
    ["with bits to spare", `k:${base64.slice(0, 42)}B=`],
    ["a list", [`k:${base64}`]],
  ])("may not be %s", (_, value) => {
    expectOneFault({ KEK: value }, "KEK");
  });
});

test("KEK_LEASE lies between a minute and a day", () => {
  const good = ["1m", "24h"].map((KEK_LEASE) => configurationOf({ KEK_LEASE }).kekLeaseSeconds);
  expect(good).toEqual([60, 86_400]);
});

test("CONSOLE_TOKENS may be in a file only where all of them are digests", () => {
  const digest = `sha256:${"0a".repeat(32)}`;
  const token = "a".repeat(43);
  const values = [digest, `${digest}, ${digest}`, `${digest},${token}`, `${token},${digest}`];
  expect(values.map(Secrets.areDigests)).toEqual([true, true, false, false]);
});

describe("no fault quotes a secret", () => {
  const secret = fc
    .uint8Array({ minLength: 24, maxLength: 48 })
    .map((octets) => Buffer.from(octets).toString("base64"))
    .filter((text) => !/^A+=*$/.test(text));

  const placements: readonly [string, (secret: string) => Values][] = [
    ["KEK alone", (s) => ({ KEK: s })],
    ["KEK with another separator", (s) => ({ KEK: `k1=${s}` })],
    ["KEK with its id twice", (s) => ({ KEK: `k:${s},k:${s}` })],
    ["KEK in a list", (s) => ({ KEK: [s] })],
    ["KEK with more lines", (s) => ({ KEK: `k:${s}\nk` })],
    ["a mistyped KEK", (s) => ({ KEK_SECRET: s })],
    ["ISSUERS that is a secret", (s) => ({ ISSUERS: s })],
    ["ISSUERS that begins as JSON", (s) => ({ ISSUERS: `[{"issuer":"${s}` })],
    ["an issuer", (s) => ({ ISSUERS: [{ issuer: s }] })],
    ["a key of an issuer", (s) => ({ ISSUERS: [{ issuer, jwks: s }] })],
    ["a private key", (s) => ({ ISSUERS: [{ issuer, jwks: { keys: [{ kty: "EC", d: s }] } }] })],
    ["a token for keys", (s) => ({ ISSUERS: [{ issuer, jwks_uri: `Bearer ${s}` }] })],
    ["the trust domain", (s) => ({ TRUST_DOMAIN: `X${s}` })],
    ["a duration", (s) => ({ MAX_WORKLOAD_CERT_TTL: s })],
    ["the date", (s) => ({ INCEPTION_DATE: s })],
  ];

  test.each(placements)("that was put into %s", (_, place) => {
    fc.assert(
      fc.property(secret, (value) => {
        expect(faultsOf(place(value)).join("\n")).not.toContain(value.slice(0, 16));
      }),
      { numRuns: 30 },
    );
  });

  test("of a private key that was put beside a public one", async () => {
    const { d } = await exportJWK((await createTokenKey("ES256")).privateKey);
    const jwks = { keys: [...publicKeys.keys, { kty: "EC", crv: "P-256", x: "A", y: "A", d }] };
    const message = faultsOf({ ISSUERS: [{ issuer, jwks }] }).join("\n");
    expect(message).not.toContain(d);
  });
});
