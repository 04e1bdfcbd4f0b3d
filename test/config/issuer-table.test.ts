import type { JWK } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import {
  configurationOf,
  createKeySets,
  expectOneFault,
  faultsOf,
  issuer,
  issuersOf,
} from "../testkit/configuration.ts";

let publicKeys: { keys: JWK[] };
let privateKeys: { keys: JWK[] };

beforeAll(async () => {
  ({ publicKeys, privateKeys } = await createKeySets());
});

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

  test("may have keys as JSON in a text", () => {
    const [table] = issuersOf({ issuer, jwks: JSON.stringify(publicKeys) });
    expect(table?.jwks?.usable).toMatchObject([{ keyId: "k1" }]);
  });

  test("may be on the loopback interface, over http", () => {
    expect(issuersOf({ issuer: "http://127.0.0.1:8788" })).toHaveLength(1);
  });

  test("may hold many tables", () => {
    const tables = Array.from({ length: 1024 }, (_, i) => ({ issuer: `https://a${i}.test` }));
    expect(issuersOf(...tables)).toHaveLength(1024);
  });

  test.each<[string, unknown, string]>([
    ["an empty list", [], "ISSUERS"],
    ["an empty list in a text", "[]", "ISSUERS"],
    ["an empty text", "", "ISSUERS"],
    ["text that is no JSON", "https://a.test", "ISSUERS"],
    ["JSON that ends early", '[{"issuer":"https://a.test"}', "ISSUERS"],
    ["one table without a list", { issuer }, "ISSUERS"],
    ["one table without a list, in a text", JSON.stringify({ issuer }), "ISSUERS"],
    ["a number", 1, "ISSUERS"],
    ["the same issuer twice", [{ issuer }, { issuer, cluster: "x" }], "ISSUERS[1].issuer"],
    [
      "the same issuer twice in a text",
      JSON.stringify([{ issuer }, { issuer }]),
      "ISSUERS[1].issuer",
    ],
    [
      "the same issuer for two audiences",
      [{ issuer, audiences: ["a"] }, { issuer: "https://b.test" }, { issuer, audiences: ["b"] }],
      "ISSUERS[2].issuer",
    ],
    [
      "1025 tables",
      Array.from({ length: 1025 }, (_, i) => ({ issuer: `https://a${i}` })),
      "ISSUERS",
    ],
    ["a text for a table", [issuer], "ISSUERS[0]"],
    ["null for a table", [null], "ISSUERS[0]"],
    ["an issuer that is a number", [{ issuer: 1 }], "ISSUERS[0].issuer"],
    ["an empty issuer", [{ issuer: "" }], "ISSUERS[0].issuer"],
    ["an issuer with a space", [{ issuer: "https://a.test x" }], "ISSUERS[0].issuer"],
    ["an issuer with a newline", [{ issuer: "https://a.test\n" }], "ISSUERS[0].issuer"],
    ["an issuer over http", [{ issuer: "http://a.test" }], "ISSUERS[0].issuer"],
    ["an issuer that is no URL, and no keys", [{ issuer: "kubernetes" }], "ISSUERS[0].issuer"],
    ["the second table wrong", [{ issuer }, { issuer: "x" }], "ISSUERS[1].issuer"],
    [
      "the second wrong in a text",
      JSON.stringify([{ issuer }, { issuer: "x" }]),
      "ISSUERS[1].issuer",
    ],
    ["audiences in a text", [{ issuer, audiences: "istio-ca" }], "ISSUERS[0].audiences"],
    ["no audience", [{ issuer, audiences: [] }], "ISSUERS[0].audiences"],
    ["an empty audience", [{ issuer, audiences: [""] }], "ISSUERS[0].audiences[0]"],
    ["an empty cluster", [{ issuer, cluster: "" }], "ISSUERS[0].cluster"],
    ["a cluster with a comma", [{ issuer, cluster: "a,b" }], "ISSUERS[0].cluster"],
    ["keys over http", [{ issuer, jwks_uri: "http://a.test" }], "ISSUERS[0].jwks_uri"],
    ["keys at no URL", [{ issuer, jwks_uri: "jwks" }], "ISSUERS[0].jwks_uri"],
    ["no namespace", [{ issuer, namespaces: [] }], "ISSUERS[0].namespaces"],
    ["a namespace in upper case", [{ issuer, namespaces: ["Ops"] }], "ISSUERS[0].namespaces[0]"],
    ["a regular expression", [{ issuer, namespaces: ["ops", "a.+"] }], "ISSUERS[0].namespaces[1]"],
    [
      "a node account without a namespace",
      [{ issuer, trusted_node_accounts: ["ztunnel"] }],
      "ISSUERS[0].trusted_node_accounts[0]",
    ],
    [
      "a node account of three parts",
      [{ issuer, trusted_node_accounts: ["a/b/c"] }],
      "ISSUERS[0].trusted_node_accounts[0]",
    ],
    [
      "a glob of node accounts",
      [{ issuer, trusted_node_accounts: ["istio-system/*"] }],
      "ISSUERS[0].trusted_node_accounts[0]",
    ],
    [
      "node accounts as Istio lists them",
      [{ issuer, trusted_node_accounts: ["a/b,c/d"] }],
      "ISSUERS[0].trusted_node_accounts[0]",
    ],
    [
      "node accounts that nothing bounds",
      [{ issuer, trusted_node_accounts: ["a/b"] }],
      "ISSUERS[0].node_reach",
    ],
    [
      "node accounts by claims that nothing bounds",
      [{ issuer, trusted_node_accounts: ["a/b"], node_checks: "claims", kubernetes: api }],
      "ISSUERS[0].node_reach",
    ],
    ["another word for anywhere", [{ issuer, node_reach: "everywhere" }], "ISSUERS[0].node_reach"],
    ["no row of node_reach", [{ issuer, node_reach: [] }], "ISSUERS[0].node_reach"],
    [
      "a gateway of any name",
      [{ issuer, gateways: [{ account: "a/b", dns_names: ["*.test"] }] }],
      "ISSUERS[0].gateways[0].dns_names[0]",
    ],
    [
      "a gateway of an identity",
      [{ issuer, gateways: [{ account: "a/b", dns_names: ["spiffe://cluster.local/ns/a/sa/b"] }] }],
      "ISSUERS[0].gateways[0].dns_names[0]",
    ],
    [
      "a gateway without a name",
      [{ issuer, gateways: [{ account: "a/b", dns_names: [] }] }],
      "ISSUERS[0].gateways[0].dns_names",
    ],
    [
      "an intermediate of another trust domain's form",
      [{ issuer, intermediates: [{ account: "a/b", trust_domain: "A" }] }],
      "ISSUERS[0].intermediates[0].trust_domain",
    ],
    [
      "an intermediate with too long a path",
      [{ issuer, intermediates: [{ account: "a/b", trust_domain: "a.test", path_length: 7 }] }],
      "ISSUERS[0].intermediates[0].path_length",
    ],
    [
      "a gateway without a namespace",
      [{ issuer, gateways: [{ account: "b", dns_names: ["a.test"] }] }],
      "ISSUERS[0].gateways[0].account",
    ],
    [
      "a gateway that forwards something else",
      [{ issuer, gateways: [{ account: "a/b", dns_names: ["a.test"], forwards: "names" }] }],
      "ISSUERS[0].gateways[0].forwards",
    ],
    [
      "a signer of a cluster without a right",
      [{ issuer, cluster_signers: [{ account: "a/b" }] }],
      "ISSUERS[0].cluster_signers[0].namespaces",
    ],
    [
      "a signer of a cluster without a namespace",
      [{ issuer, cluster_signers: [{ account: "b", namespaces: ["*"] }] }],
      "ISSUERS[0].cluster_signers[0].account",
    ],
    [
      "a signer of a cluster for an identity",
      [{ issuer, cluster_signers: [{ account: "a/b", namespaces: ["shop/web"] }] }],
      "ISSUERS[0].cluster_signers[0].namespaces[0]",
    ],
    [
      "a signer of a cluster for an upper-case name",
      [{ issuer, cluster_signers: [{ account: "a/b", dns_names: ["*.Shop.svc"] }] }],
      "ISSUERS[0].cluster_signers[0].dns_names[0]",
    ],
    [
      "a signer of a cluster that is a gateway too",
      [
        {
          issuer,
          gateways: [{ account: "a/b", dns_names: ["a.test"] }],
          cluster_signers: [{ account: "a/b", namespaces: ["*"] }],
        },
      ],
      "ISSUERS[0].cluster_signers",
    ],
    [
      "a signer of a cluster that is a node proxy too",
      [
        {
          issuer,
          trusted_node_accounts: ["a/b"],
          node_reach: "anywhere",
          cluster_signers: [{ account: "a/b", namespaces: ["*"] }],
        },
      ],
      "ISSUERS[0].cluster_signers",
    ],
    [
      "one account that is a signer of a cluster twice",
      [
        {
          issuer,
          cluster_signers: [
            { account: "a/b", namespaces: ["*"] },
            { account: "a/b", dns_names: ["*"] },
          ],
        },
      ],
      "ISSUERS[0].cluster_signers",
    ],
    ["a mistyped key", [{ issuer, audience: ["x"] }], "ISSUERS[0].audience"],
    ["a mistyped key in a text", JSON.stringify([{ issuer, jwksUri: "x" }]), "ISSUERS[0].jwksUri"],
  ])("may not be %s", (_, value, place) => {
    expectOneFault({ ISSUERS: value }, place);
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
    ["null", null],
    ["a list", []],
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
