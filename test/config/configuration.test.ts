import { describe, expect, test } from "vitest";
import { Configuration } from "../../src/config/configuration.ts";
import { ConfigurationError } from "../../src/foundation/errors.ts";
import {
  configurationOf,
  day,
  expectOneFault,
  faultsOf,
  issuer,
  randomKek,
} from "../testkit/configuration.ts";

test("has these keys, in this order", () => {
  expect(Configuration.keys).toEqual([
    "TRUST_DOMAIN",
    "ISSUERS",
    "DEFAULT_WORKLOAD_CERT_TTL",
    "MAX_WORKLOAD_CERT_TTL",
    "RENEWAL_LIMIT",
    "AUTHORITY_KEY",
    "AUTHORITY_LIFETIME",
    "AUTHORITY_ROOT",
    "UPSTREAM_AUTHORITY",
    "PROPAGATION_INTERVAL",
    "INCEPTION_DATE",
    "BUNDLE_WAIT",
    "SIGNERS",
    "POLICY",
    "TAINTED_AUTHORITIES",
    "DENIED",
    "REVOKED",
    "CRL",
    "JWT_ISSUER",
    "JWT_ALGORITHM",
    "DEFAULT_JWT_TTL",
    "MAX_JWT_TTL",
    "LOG_ORIGIN",
    "LOG_MODE",
    "LOG_INCEPTION_DATE",
    "LOG_INTERVAL",
    "LOG_SHARDS",
    "LOG_WITNESSES",
    "LOG_TILES",
    "LOG_READERS",
    "CONSOLE_TOKENS",
    "CONSOLE_ACCESS",
    "KEK_LEASE",
    "KEK",
  ]);
});

test("has a default for everything but ISSUERS and KEK", () => {
  expect(configurationOf({})).toEqual({
    trustDomain: "cluster.local",
    issuers: [
      {
        issuer,
        audiences: ["istio-ca"],
        cluster: "Kubernetes",
        cluster_aliases: [],
        namespaces: ["*"],
        trusted_node_accounts: [],
        gateways: [],
        cluster_signers: [],
        intermediates: [],
      },
    ],
    leafLifetimes: { defaultSeconds: day, maximumSeconds: 90 * day },
    renewalSeconds: 30 * day,
    authorityKey: "EC-P256",
    phaseLengths: {
      propagationSeconds: 600,
      longestLeafSeconds: 90 * day,
      signingSeconds: 4 * (90 * day + 600),
    },
    authorityRoot: "self",
    upstream: undefined,
    inceptionDate: undefined,
    bundleWaitSeconds: 50,
    signers: [],
    configuredTaints: [],
    configuredDenials: [],
    configuredRevocations: [],
    crl: undefined,
    clusterCredentials: new Map(),
    kekLeaseSeconds: 3600,
    keks: [{ id: "2026-11", octets: expect.any(Uint8Array) }],
    warnings: [],
  });
});

test.each<[ttl: string, lifetimeSeconds: number]>([
  ["90m", 5400],
  ["5m", 3600],
  ["240h", day],
])("with leaves of %s, CRLs last for %s s", (ttl, lifetimeSeconds) => {
  const values = { CRL: "on", DEFAULT_WORKLOAD_CERT_TTL: ttl };
  expect(configurationOf(values).crl).toEqual({ lifetimeSeconds });
});

test("requires ISSUERS and KEK, each with a fault of its own", () => {
  const parse = () => Configuration.parse({});
  expect(parse).toThrow(ConfigurationError);
  expect(faultsOf({ ISSUERS: undefined, KEK: undefined })).toEqual([
    "ISSUERS: is required",
    "KEK: is required",
  ]);
});

test("reports all faults at once, a line for each", () => {
  const faults = faultsOf({
    TRUST_DOMAIN: "Cluster.Local",
    ISSUERS: [{ issuer: "http://a.test" }, { issuer, namespaces: [] }],
    DEFAULT_WORKLOAD_CERT_TTL: "1 day",
    AUTHORITY_KEY: "DSA",
    INCEPTION_DATE: "today",
    KEK: "secret",
    TRUST_DOMIAN: "x",
    KEKS: "x",
  });
  expect(faults.map((fault) => fault.split(": ")[0]).toSorted()).toEqual([
    "AUTHORITY_KEY",
    "DEFAULT_WORKLOAD_CERT_TTL",
    "INCEPTION_DATE",
    "ISSUERS[0].issuer",
    "ISSUERS[1].namespaces",
    "KEK",
    "KEKS",
    "TRUST_DOMAIN",
    "TRUST_DOMIAN",
  ]);
});

test("says what would be right, even where zod itself finds the fault", () => {
  expect(faultsOf({ ISSUERS: [{ issuer, audiences: [] }], AUTHORITY_KEY: "DSA", KEK: 1 })).toEqual([
    "ISSUERS[0].audiences: must have at least 1 items",
    expect.stringMatching(/^AUTHORITY_KEY: must be one of "EC-P256"\|/),
    "KEK: must be string, not number",
  ]);
});

test("a trust domain of one label works, with one warning", () => {
  expect(configurationOf({ TRUST_DOMAIN: "prod" }).warnings).toHaveLength(1);
  expect(configurationOf({ TRUST_DOMAIN: "prod.local" }).warnings).toHaveLength(0);
});

describe("durations", () => {
  test.each([
    ["90m", 5_400],
    ["2000ms", 2],
  ])("%s are %i seconds", (text, seconds) => {
    const { leafLifetimes } = configurationOf({ DEFAULT_WORKLOAD_CERT_TTL: text });
    expect(leafLifetimes.defaultSeconds).toBe(seconds);
  });

  test("may be nothing for renewals", () => {
    const { renewalSeconds, issuers } = configurationOf({
      RENEWAL_LIMIT: "0s",
      ISSUERS: [{ issuer, renewal_limit: "90m" }],
    });
    expect([renewalSeconds, issuers[0]?.renewal_limit]).toEqual([0, 5400]);
  });

  test("may lie on their bounds", () => {
    expect(configurationOf({ DEFAULT_WORKLOAD_CERT_TTL: "2160h" }).leafLifetimes).toEqual({
      defaultSeconds: 90 * day,
      maximumSeconds: 90 * day,
    });
    expect(configurationOf({ MAX_WORKLOAD_CERT_TTL: "1h" }).leafLifetimes.defaultSeconds).toBe(
      3600,
    );
    expect(configurationOf({ PROPAGATION_INTERVAL: "240s" }).phaseLengths.propagationSeconds).toBe(
      240,
    );
    expect(configurationOf({ PROPAGATION_INTERVAL: "0s" }).phaseLengths.propagationSeconds).toBe(0);
  });

  test("have the least and the usual propagation of the store", () => {
    const secondsOf = (values: object) => {
      const all = { ISSUERS: [{ issuer }], KEK: randomKek(), ...values };
      const store = { shortestSeconds: 5, usual: "15s" };
      return Configuration.parse(all, store).phaseLengths.propagationSeconds;
    };
    expect([secondsOf({}), secondsOf({ PROPAGATION_INTERVAL: "5s" })]).toEqual([15, 5]);
    expect(() => secondsOf({ PROPAGATION_INTERVAL: "4s" })).toThrow("must be at least 5s");
  });

  test("give an authority time to sign, and time before and after", () => {
    const lifetimeSeconds = 4 * (90 * day + 600);
    const { phaseLengths } = configurationOf({ AUTHORITY_LIFETIME: `${lifetimeSeconds}s` });
    const { longestLeafSeconds, propagationSeconds, signingSeconds } = phaseLengths;
    expect(signingSeconds + 2 * (longestLeafSeconds + propagationSeconds)).toBe(lifetimeSeconds);
    expect(signingSeconds).toBeGreaterThanOrEqual(longestLeafSeconds);
  });
});

test("warns once of issuers that may vouch for each other's namespaces", () => {
  const issuer = (name: string, namespaces?: string[]) => ({
    issuer: `https://${name}.test`,
    ...(namespaces && { namespaces }),
  });
  const warningsFor = (...ISSUERS: object[]) =>
    Configuration.parse({ ISSUERS, KEK: `k1:${"A".repeat(43)}=` }).warnings;
  expect(warningsFor(issuer("a"), issuer("b"))).toHaveLength(1);
  expect(warningsFor(issuer("a"), issuer("b", ["bank"]))).toHaveLength(1);
  expect(warningsFor(issuer("a", ["shop"]), issuer("b", ["bank"]))).toEqual([]);
  expect(warningsFor(issuer("a"))).toEqual([]);
});

test.each<[string, string, object]>([
  ["TRUST_DOMAIN", "example.org", { trustDomain: "example.org" }],
  ["TRUST_DOMAIN", "a_b-c.d0", { trustDomain: "a_b-c.d0" }],
  ["TRUST_DOMAIN", "10.0.0.1", { trustDomain: "10.0.0.1" }],
  ["TRUST_DOMAIN", "x".repeat(255), { trustDomain: "x".repeat(255) }],
  ["BUNDLE_WAIT", "0s", { bundleWaitSeconds: 0 }],
  ["BUNDLE_WAIT", "5m", { bundleWaitSeconds: 300 }],
  ["AUTHORITY_KEY", "EC-P256", { authorityKey: "EC-P256" }],
  ["AUTHORITY_KEY", "EC-P384", { authorityKey: "EC-P384" }],
  ["AUTHORITY_KEY", "RSA-2048", { authorityKey: "RSA-2048" }],
  ["AUTHORITY_KEY", "RSA-4096", { authorityKey: "RSA-4096" }],
  ["INCEPTION_DATE", "2026-11-21", { inceptionDate: "2026-11-21" }],
  ["INCEPTION_DATE", "2028-02-29", { inceptionDate: "2028-02-29" }],
])("%s may be %j", (key, value, expected) => {
  expect(configurationOf({ [key]: value })).toMatchObject(expected);
});

const token = "a".repeat(32);
const digest = "0123456789abcdef".repeat(4);

/** Values that each of these keys cannot have. */
const refused: Readonly<Record<string, readonly unknown[]>> = {
  KEKS: [randomKek("k")],
  __PROTO__: [{}],
  TRUST_DOMAIN: ["", "Example.org", "spiffe://example.org", "a.org,b.org", "x".repeat(256), null],
  // Days are none of Go's units.
  DEFAULT_WORKLOAD_CERT_TTL: [3600, "-1h", "90d", "1500ms", "9999999h", "0s", "2161h"],
  MAX_WORKLOAD_CERT_TTL: ["88000h"],
  RENEWAL_LIMIT: ["", "30d", "-1h", "1ms", "720"],
  AUTHORITY_KEY: ["", "ec-p256", "RSA-1024", "EC-P521", "Ed25519", "ML-DSA-65", 256],
  AUTHORITY_LIFETIME: ["8640h", "0s", "999999h"],
  PROPAGATION_INTERVAL: ["239s"],
  INCEPTION_DATE: ["", "2026-02-30", "2027-02-29", "2026-1-1", "2026-11-21 ", 20261121],
  BUNDLE_WAIT: ["301s", "24h", "50", "-1s", 50],
  CRL: ["true", "", "ON", 1],
  LOG_ORIGIN: ["", "log+example", "log.example.com/", "a".repeat(201)],
  LOG_MODE: ["off"],
  LOG_INCEPTION_DATE: ["today"],
  LOG_INTERVAL: ["500ms", "0s", "2h"],
  LOG_SHARDS: [0, 65],
  LOG_WITNESSES: [7],
  LOG_TILES: ["yes"],
  LOG_READERS: ["short", `${token},`],
  CONSOLE_TOKENS: [
    ...["short", `${token},`, `${"a".repeat(16)} ${"a".repeat(16)}`],
    ...[`sha256:${digest.slice(1)}`, `sha256:${digest.toUpperCase()}`],
    Array.from({ length: 33 }, () => token).join(","),
  ],
  CONSOLE_ACCESS: ["{"],
  CLUSTER_CREDENTIAL_A: ["", "two words", "two\nlines", "ü", 1, ["a"]],
  KEK_LEASE: ["59s", "86401s"],
};

test.each(
  Object.entries(refused).flatMap(([key, values]) => values.map((value) => [key, value] as const)),
)("%s may not be %j", (key, value) => {
  const others = key.startsWith("LOG_") ? { LOG_ORIGIN: "log.example.com" } : {};
  expectOneFault({ ...others, [key]: value }, key);
});
