import { describe, expect, test } from "vitest";
import { createTokenKey, jwksOf } from "../testkit/callers/tokens.ts";
import {
  configurationOf,
  createKeySets,
  expectOneFault,
  faultsOf,
  issuer,
  issuersOf,
} from "../testkit/configuration.ts";

const { publicKeys, privateKeys } = await createKeySets();

const api = { server: "https://api.test", credential: "CLUSTER_CREDENTIAL_A" };

describe("ISSUERS", () => {
  test("may be JSON in a text", () => {
    const tables = [{ issuer, audiences: ["x"] }];
    expect(configurationOf({ ISSUERS: JSON.stringify(tables) }).issuers).toEqual(
      issuersOf(...tables),
    );
  });

  test("may have every key of an issuer", () => {
    const [first, second] = issuersOf(
      {
        issuer,
        audiences: ["istio-ca", "rampart"],
        cluster: "remote-1",
        jwks_uri: "https://keys.test/jwks",
        namespaces: ["team-*", "ops"],
        trusted_node_accounts: ["istio-system/ztunnel", "kmesh-system/kmesh"],
        node_reach: "anywhere",
      },
      { issuer: "kubernetes/serviceaccount", jwks: publicKeys },
    );
    expect(first).toMatchObject({
      audiences: ["istio-ca", "rampart"],
      cluster: "remote-1",
      jwks_uri: "https://keys.test/jwks",
      namespaces: ["team-*", "ops"],
      trusted_node_accounts: [
        { namespace: "istio-system", name: "ztunnel" },
        { namespace: "kmesh-system", name: "kmesh" },
      ],
    });
    expect(second?.jwks?.usable).toMatchObject([{ keyId: "k1", algorithms: ["ES256"] }]);
  });

  test("may have keys for signatures that are not usable, which are reported", () => {
    const jwks = { keys: [...publicKeys.keys, { kty: "OKP", crv: "Ed448", x: "AA", kid: "k2" }] };
    expect(issuersOf({ issuer, jwks })[0]?.jwks?.unusable).toEqual([
      "k2: a key of the kind OKP Ed448 is not supported",
    ]);
  });

  test("may have accounts of one name in two namespaces, each with its right", () => {
    const cluster_signers = [
      { account: "a/x", namespaces: ["*"] },
      { account: "b/x", dns_names: ["*"] },
    ];
    const gateways = [{ account: "c/x", dns_names: ["a.test"] }];
    const intermediates = [{ account: "d/x", trust_domain: "a.test" }];
    const [table] = issuersOf({ issuer, cluster_signers, gateways, intermediates });
    expect(table?.intermediates).toMatchObject([{ path_length: 0, name_constraints: false }]);
  });

  test("may have keys as JSON in a text", () => {
    const [table] = issuersOf({ issuer, jwks: JSON.stringify(publicKeys) });
    expect(table?.jwks?.usable).toMatchObject([{ keyId: "k1" }]);
  });

  test("may hold many tables", () => {
    const tables = Array.from({ length: 1024 }, (_, i) => ({ issuer: `https://a${i}.test` }));
    expect(issuersOf(...tables)).toHaveLength(1024);
    expectOneFault({ ISSUERS: [...tables, { issuer }] }, "ISSUERS");
  });

  test.each<[string, unknown, string]>([
    ["an empty list", [], "ISSUERS"],
    ["text that is no JSON", "https://a.test", "ISSUERS"],
    ["one table without a list", { issuer }, "ISSUERS"],
    ["the same issuer twice", [{ issuer }, { issuer, cluster: "x" }], "ISSUERS[1].issuer"],
    ["a text for a table", [issuer], "ISSUERS[0]"],
    ["an issuer that is a number", [{ issuer: 1 }], "ISSUERS[0].issuer"],
    ["an empty issuer", [{ issuer: "" }], "ISSUERS[0].issuer"],
    ["an issuer with a newline", [{ issuer: "https://a.test\n" }], "ISSUERS[0].issuer"],
    ["an issuer over http", [{ issuer: "http://a.test" }], "ISSUERS[0].issuer"],
    ["an issuer that is no URL, and no keys", [{ issuer: "kubernetes" }], "ISSUERS[0].issuer"],
    ["the second in a text", JSON.stringify([{ issuer }, { issuer: "x" }]), "ISSUERS[1].issuer"],
    ["audiences in a text", [{ issuer, audiences: "istio-ca" }], "ISSUERS[0].audiences"],
    ["an empty audience", [{ issuer, audiences: [""] }], "ISSUERS[0].audiences[0]"],
    ["a cluster with a comma", [{ issuer, cluster: "a,b" }], "ISSUERS[0].cluster"],
    ["keys over http", [{ issuer, jwks_uri: "http://a.test" }], "ISSUERS[0].jwks_uri"],
    ["a regular expression", [{ issuer, namespaces: ["ops", "a.+"] }], "ISSUERS[0].namespaces[1]"],
    ["a mistyped key", [{ issuer, audience: ["x"] }], "ISSUERS[0].audience"],
    ["a limit of renewals in days", [{ issuer, renewal_limit: "30d" }], "ISSUERS[0].renewal_limit"],
  ])("may not be %s", (_, value, place) => {
    expectOneFault({ ISSUERS: value }, place);
  });

  const account = "a/b";
  const signing = { account, namespaces: ["*"] };
  const proxies = { trusted_node_accounts: [account] };

  test.each<[string, object]>([
    ["trusted_node_accounts[0]", { trusted_node_accounts: ["ztunnel"] }],
    ["trusted_node_accounts[0]", { trusted_node_accounts: ["istio-system/*"] }],
    ["node_reach", proxies],
    ["node_reach", { ...proxies, node_checks: "claims", kubernetes: api }],
    ["node_checks", { ...proxies, node_checks: "api", node_reach: "anywhere" }],
    ["node_reach", { node_reach: "everywhere" }],
    ["gateways[0].dns_names[0]", { gateways: [{ account, dns_names: ["*.test"] }] }],
    ["gateways[0].dns_names[0]", { gateways: [{ account, dns_names: ["spiffe://a/ns/a/sa/b"] }] }],
    ["intermediates[0].trust_domain", { intermediates: [{ account, trust_domain: "A" }] }],
    [
      "intermediates[0].path_length",
      { intermediates: [{ account, trust_domain: "a.test", path_length: 7 }] },
    ],
    ["gateways[0].forwards", { gateways: [{ account, dns_names: ["a.test"], forwards: "names" }] }],
    ["cluster_signers[0].namespaces", { cluster_signers: [{ account }] }],
    ["cluster_signers[0].namespaces[0]", { cluster_signers: [{ account, namespaces: ["a/b"] }] }],
    ["cluster_signers[0].dns_names[0]", { cluster_signers: [{ account, dns_names: ["*.A.svc"] }] }],
    [
      "cluster_signers",
      { gateways: [{ account, dns_names: ["a.test"] }], cluster_signers: [signing] },
    ],
    ["cluster_signers", { ...proxies, node_reach: "anywhere", cluster_signers: [signing] }],
    ["cluster_signers", { cluster_signers: [signing, { account, dns_names: ["*"] }] }],
  ])("may not be wrong in %s: %j", (place, changes) => {
    expectOneFault({ ISSUERS: [{ issuer, ...changes }] }, `ISSUERS[0].${place}`);
  });

  test("names the second and the third table of an issuer that has three", () => {
    expect(faultsOf({ ISSUERS: [{ issuer }, { issuer }, { issuer }] })).toEqual([
      "ISSUERS[1].issuer: is that of ISSUERS[0] too: each cluster needs its own",
      "ISSUERS[2].issuer: is that of ISSUERS[0] too: each cluster needs its own",
    ]);
  });

  test("may hold issuers that differ in a slash, a port or in case", () => {
    const names = [issuer, `${issuer}/`, `${issuer}:443`, issuer.replace("a.", "A.")];
    expect(issuersOf(...names.map((name) => ({ issuer: name })))).toHaveLength(4);
  });

  test("reports a table without an issuer", () => {
    expect(faultsOf({ ISSUERS: [{ cluster: "x" }] })).toEqual(["ISSUERS[0].issuer: is required"]);
  });

  test("may not have two sources of keys", () => {
    const table = { issuer, jwks: publicKeys, jwks_uri: "https://a.test/jwks" };
    expectOneFault({ ISSUERS: [table] }, "ISSUERS[0].jwks");
  });

  test.each<[string, unknown]>([
    ["an empty set", { keys: [] }],
    ["no set", {}],
    ["text that is no JSON", "k1"],
    ["a set of secrets", { keys: [{ kty: "oct", k: "AAAA" }] }],
    ["a set for encryption", { keys: [{ kty: "RSA", n: "AAAA", e: "AQAB", use: "enc" }] }],
  ])("may not have %s for keys", (_, jwks) => {
    expectOneFault({ ISSUERS: [{ issuer, jwks }] }, "ISSUERS[0].jwks");
  });

  test("may not hold a private key, in a table or in a text, alone or beside a public one", () => {
    const both = { keys: [...publicKeys.keys, ...privateKeys.keys] };
    for (const jwks of [privateKeys, both, JSON.stringify(privateKeys), JSON.stringify(both)]) {
      expectOneFault({ ISSUERS: [{ issuer, jwks }] }, "ISSUERS[0].jwks");
    }
    const text = JSON.stringify([{ issuer, jwks: both }]);
    expectOneFault({ ISSUERS: text }, "ISSUERS[0].jwks");
  });

  test("may not hold a shared secret beside a public key", () => {
    const jwks = { keys: [...publicKeys.keys, { kty: "oct", k: "c2VjcmV0" }] };
    expectOneFault({ ISSUERS: [{ issuer, jwks }] }, "ISSUERS[0].jwks");
  });

  test("may hold a public key whose id merely looks like a member of a private one", () => {
    const [key] = publicKeys.keys;
    const jwks = { keys: [{ ...key, kid: '"d":' }] };
    expect(issuersOf({ issuer, jwks })).toHaveLength(1);
  });
});

const server = "https://10.0.0.1:6443";
const credential = "CLUSTER_CREDENTIAL_A";
const pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

describe("the table kubernetes of an issuer", () => {
  test("makes the API server decide where the keys cannot, by default", () => {
    const [table] = issuersOf({ issuer, kubernetes: { server: `${server}/`, credential } });
    expect(table?.kubernetes).toEqual({ server, credential, review: "after-keys" });
  });

  test("may have all of its keys", () => {
    const kubernetes = {
      server,
      credential,
      ca: `the CA:\n${pem}`,
      review: "before-keys",
      deliver_roots: true,
      config_map: "istio-ca-root-cert",
    };
    expect(issuersOf({ issuer, kubernetes })[0]?.kubernetes).toEqual(kubernetes);
  });

  test("makes keys needless when the API server decides alone", () => {
    const kubernetes = { server, credential, review: "instead-of-keys" };
    expect(issuersOf({ issuer: "kubernetes", kubernetes })).toHaveLength(1);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ["a server over http", { server: "http://10.0.0.1" }, "server"],
    ["a server with a password", { server: "https://a:b@10.0.0.1" }, "server"],
    ["a server with a query", { server: `${server}/?a=b` }, "server"],
    ["a credential itself", { credential: "eyJhbGciOiJub25lIn0" }, "credential"],
    ["the name of another secret", { credential: "KEK" }, "credential"],
    ["the name of a file", { credential: `${credential}_FILE` }, "credential"],
    ["a CA on one line, which OpenSSL does not read", { ca: pem.replaceAll("\n", " ") }, "ca"],
    ["a key behind its CA", { ca: pem + pem.replaceAll("CERTIFICATE", "PRIVATE KEY") }, "ca"],
    ["another order", { review: "never" }, "review"],
    ["a ConfigMap that is a path", { config_map: "../secrets/x" }, "config_map"],
    ["another key", { token: "x" }, "token"],
  ])("may not have %s", (_, changes, key) => {
    const kubernetes = { server, credential, ...changes };
    expectOneFault({ ISSUERS: [{ issuer, kubernetes }] }, `ISSUERS[0].kubernetes.${key}`);
  });

  test("needs an issuer with keys unless the API server decides alone", () => {
    const tables = [{ issuer: "kubernetes", kubernetes: { server, credential } }];
    expectOneFault({ ISSUERS: tables }, "ISSUERS[0].issuer");
  });
});

describe("a credential", () => {
  test("is the secret with its name", () => {
    const { clusterCredentials } = configurationOf({ [credential]: "secret" });
    expect([...clusterCredentials].map(([name, read]) => [name, read()])).toEqual([
      [credential, "secret"],
    ]);
  });

  test("is its own among several, and one of a key service may be JSON", () => {
    const values = { [credential]: "a", CLUSTER_CREDENTIAL_B: "b", KEY_CREDENTIAL_GCPKMS: "{ }\n" };
    const { clusterCredentials } = configurationOf(values);
    const read = [...clusterCredentials].map(([name, text]) => [name, text()]);
    expect(Object.fromEntries(read)).toEqual(values);
  });

  test("is never read from a file here", () => {
    const key = `${credential}_FILE`;
    expect(faultsOf({ [key]: "/token" })).toEqual([`${key}: is not a key of Rampart`]);
  });
});

const one = await createTokenKey("ES256", "k1");
const other = await createTokenKey("RS256", "k1");

const issuers = ["https://a.test", "https://b.test", "https://c.test"];

const warningsFor = (...tables: readonly Record<string, unknown>[]): readonly string[] =>
  configurationOf({
    TRUST_DOMAIN: "mesh.test",
    ISSUERS: tables.map((table, i) => ({ issuer: issuers[i], namespaces: ["a"], ...table })),
  }).warnings;

const warning = (later: number, earlier: number): unknown =>
  expect.stringContaining(`${issuers[later]} has a key of ${issuers[earlier]}:`);

const renamed = { ...one, publicJwk: { ...one.publicJwk, kid: "k2", use: "sig" } };
const jwks_uri = "https://keys.test/jwks";

test.each<[string, readonly object[], readonly unknown[]]>([
  [
    "whatever its key id",
    [{ jwks: jwksOf(one) }, { jwks: jwksOf(other, renamed) }],
    [warning(1, 0)],
  ],
  [
    "once for two clusters, however many keys they share",
    ["a", "b", "c"].map(() => ({ jwks: jwksOf(one, other) })),
    [warning(1, 0), warning(2, 0)],
  ],
  ["of one jwks_uri", [{ jwks_uri }, { jwks_uri }], [warning(1, 0)]],
  ["and none of one id", [{ jwks: jwksOf(one) }, { jwks: jwksOf(other) }, {}], []],
])("a warning names clusters that share a key, %s", (_, tables, warnings) => {
  const clusters = tables.map((table, i) => ({ cluster: `c${i}`, ...table }));
  expect(warningsFor(...clusters)).toEqual(warnings);
});

test("no warning names one cluster with two issuers", () => {
  expect(warningsFor({ jwks: jwksOf(one) }, { jwks: jwksOf(one) })).toEqual([]);
});
