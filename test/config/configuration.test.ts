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

test.each(["true", "", "ON", 1])("refuses CRL = %j", (CRL) => {
  expectOneFault({ CRL }, "CRL");
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

describe("TRUST_DOMAIN", () => {
  test.each(["example.org", "a_b-c.d0", "10.0.0.1", "x".repeat(255)])("may be %s", (name) => {
    expect(configurationOf({ TRUST_DOMAIN: name }).trustDomain).toBe(name);
  });

  test("of one label works, with one warning", () => {
    expect(configurationOf({ TRUST_DOMAIN: "prod" }).warnings).toHaveLength(1);
    expect(configurationOf({ TRUST_DOMAIN: "prod.local" }).warnings).toHaveLength(0);
  });

  test.each<[string, unknown]>([
    ["empty", ""],
    ["upper case", "Example.org"],
    ["a SPIFFE ID", "spiffe://example.org"],
    ["with a comma", "a.org,b.org"],
    ["too long", "x".repeat(256)],
    ["null", null],
  ])("may not be %s", (_, value) => {
    expectOneFault({ TRUST_DOMAIN: value }, "TRUST_DOMAIN");
  });
});

describe("BUNDLE_WAIT", () => {
  test.each([
    ["0s", 0],
    ["5m", 300],
  ])("may be %s", (text, seconds) => {
    expect(configurationOf({ BUNDLE_WAIT: text }).bundleWaitSeconds).toBe(seconds);
  });

  test.each(["301s", "24h", "50", "-1s", 50])("may not be %s", (value) => {
    expectOneFault({ BUNDLE_WAIT: value }, "BUNDLE_WAIT");
  });
});

describe("durations", () => {
  test.each([
    ["90m", 5_400],
    ["2000ms", 2],
  ])("%s are %i seconds", (text, seconds) => {
    const { leafLifetimes } = configurationOf({ DEFAULT_WORKLOAD_CERT_TTL: text });
    expect(leafLifetimes.defaultSeconds).toBe(seconds);
  });

  test.each<[string, unknown]>([
    ["a number", 3600],
    ["negative", "-1h"],
    ["days, which Go would not read", "90d"],
    ["part of a second", "1500ms"],
    ["beyond reason", "9999999h"],
  ])("may not be %s", (_, value) => {
    expectOneFault({ DEFAULT_WORKLOAD_CERT_TTL: value }, "DEFAULT_WORKLOAD_CERT_TTL");
  });

  test.each(["", "30d", "-1h", "1ms", "720"])("may not be %j for renewals", (value) => {
    expectOneFault({ RENEWAL_LIMIT: value }, "RENEWAL_LIMIT");
    const ISSUERS = [{ issuer, renewal_limit: value }];
    expectOneFault({ ISSUERS }, "ISSUERS[0].renewal_limit");
  });

  test("may be nothing for renewals", () => {
    const { renewalSeconds, issuers } = configurationOf({
      RENEWAL_LIMIT: "0s",
      ISSUERS: [{ issuer, renewal_limit: "90m" }],
    });
    expect([renewalSeconds, issuers[0]?.renewal_limit]).toEqual([0, 5400]);
  });

  test("may not contradict each other", () => {
    expectOneFault({ DEFAULT_WORKLOAD_CERT_TTL: "0s" }, "DEFAULT_WORKLOAD_CERT_TTL");
    expectOneFault({ DEFAULT_WORKLOAD_CERT_TTL: "2161h" }, "DEFAULT_WORKLOAD_CERT_TTL");
    expectOneFault({ MAX_WORKLOAD_CERT_TTL: "88000h" }, "MAX_WORKLOAD_CERT_TTL");
    expectOneFault({ PROPAGATION_INTERVAL: "239s" }, "PROPAGATION_INTERVAL");
    expectOneFault({ AUTHORITY_LIFETIME: "8640h" }, "AUTHORITY_LIFETIME");
    expectOneFault({ AUTHORITY_LIFETIME: "0s" }, "AUTHORITY_LIFETIME");
    expectOneFault({ AUTHORITY_LIFETIME: "999999h" }, "AUTHORITY_LIFETIME");
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

describe("AUTHORITY_KEY", () => {
  test.each(["EC-P256", "EC-P384", "RSA-2048", "RSA-4096"])("may be %s", (value) => {
    expect(configurationOf({ AUTHORITY_KEY: value }).authorityKey).toBe(value);
  });

  test.each<[unknown]>([[""], ["ec-p256"], ["RSA-1024"], ["EC-P521"], ["Ed25519"], [256]])(
    "may not be %j",
    (value) => {
      expectOneFault({ AUTHORITY_KEY: value }, "AUTHORITY_KEY");
    },
  );
});

describe("INCEPTION_DATE", () => {
  test.each(["2026-11-21", "2028-02-29"])("may be %s", (value) => {
    expect(configurationOf({ INCEPTION_DATE: value }).inceptionDate).toBe(value);
  });

  test.each<[unknown]>([
    [""],
    ["2026-02-30"],
    ["2027-02-29"],
    ["2026-1-1"],
    ["2026-11-21 "],
    [20261121],
  ])("may not be %j", (value) => {
    expectOneFault({ INCEPTION_DATE: value }, "INCEPTION_DATE");
  });
});

describe("a key of another name", () => {
  test.each([
    ["KEKS", { KEKS: randomKek("k") }],
    ["__PROTO__", { __PROTO__: {} }],
  ])("%s is refused", (name, changes) => {
    expectOneFault(changes, name);
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
