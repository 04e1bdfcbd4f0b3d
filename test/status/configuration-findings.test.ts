import { describe, expect, test } from "vitest";
import { configurationFindings } from "../../src/status/configuration-findings.ts";
import { issuersOf } from "../testkit/configuration.ts";

describe("namespaces of two clusters", () => {
  const found = (one: string[], other: string[], cluster = "b") =>
    configurationFindings({
      issuers: issuersOf(
        { issuer: "https://a.test", cluster: "a", namespaces: one },
        { issuer: "https://b.test", cluster, namespaces: other },
      ),
      warnings: [],
    });

  test.each([
    [["shop-*"], ["*-eu"], "shop-eu"],
    [["a", "shop"], ["b", "s*p"], "such as shop"],
    [["*a*b*"], ["x*"], "such as xab"],
    [["shop-*"], ["shop*eu"], "such as shop-eu"],
  ])("%j and %j overlap in %s", (one, other, what) => {
    expect(found(one, other)).toMatchObject([
      { name: "namespaces-overlap", what: expect.stringContaining(what) },
    ]);
  });

  test.each([
    [["shop-*"], ["web-*"]],
    [["*-eu"], ["*-us"]],
    [["shop"], ["shop-a"]],
    [["a*b"], ["a*c"]],
    [["a*a"], ["a"]],
    [[`${"a".repeat(40)}*`], [`*${"b".repeat(40)}`]],
  ])("%j and %j do not overlap", (one, other) => {
    expect(found(one, other)).toEqual([]);
  });

  test("are counted that overlap with further ones", () => {
    const tables = ["a", "b", "c", "d"].map((cluster) => ({
      ...{ issuer: `https://${cluster}.test`, cluster, namespaces: ["shop"] },
    }));
    const [first] = configurationFindings({ issuers: issuersOf(...tables), warnings: [] });
    expect(first?.what).toContain("of https://b.test (cluster b)");
    expect(first?.what).toMatch(/The same is true of 2 more issuers\.$/);
  });

  test("may be the same in two issuers of one cluster", () => {
    expect(found(["shop"], ["shop"], "a")).toEqual([]);
  });

  test("may be the same in two tables of claims, whose accounts the operator has written", () => {
    const claims = { repository_id: "74", repository_owner_id: "7", environment: "prod" };
    const tables = ["https://a.test", "https://b.test"].map((issuer, i) => ({
      ...{ issuer, audiences: ["https://ca.test"], cluster: `c${i}`, namespaces: ["ci"] },
      subjects: [{ name: "it", claims, namespace: "ci", account: `it-${i}` }],
    }));
    expect(configurationFindings({ issuers: issuersOf(...tables), warnings: [] })).toEqual([]);
    const { subjects: _, ...accounts } = tables[0] ?? {};
    const issuers = issuersOf(accounts, ...tables.slice(1));
    expect(configurationFindings({ issuers, warnings: [] })).toMatchObject([
      { name: "namespaces-overlap" },
    ]);
  });

  test("that nobody limits are left to the warning of the configuration", () => {
    expect(found(["*"], ["shop"])).toEqual([]);
  });
});

test("an account in a namespace for which its issuer may not vouch is named with what to change", () => {
  const issuers = issuersOf({
    issuer: "https://a.test",
    namespaces: ["shop-*", "istio-system"],
    trusted_node_accounts: ["kube-system/ztunnel"],
    node_reach: "anywhere",
    gateways: [
      { account: "shop-eu/gateway", dns_names: ["a.test"] },
      { account: "mesh/gateway", dns_names: ["a.test"] },
    ],
    cluster_signers: [{ account: "mesh/signer", namespaces: ["*"] }],
    intermediates: [{ account: "mesh/waypoint", trust_domain: "b.test" }],
  });
  const found = configurationFindings({ issuers, warnings: [] });
  expect(found.map(({ name, what }) => [name, what.split(",")[0]])).toEqual([
    ["account-refused", "trusted_node_accounts of https://a.test has kube-system/ztunnel"],
    ["account-refused", "gateways of https://a.test has mesh/gateway"],
    ["account-refused", "cluster_signers of https://a.test has mesh/signer"],
    ["account-refused", "intermediates of https://a.test has mesh/waypoint"],
  ]);
  expect(found[1]?.remedy).toBe(
    "Add mesh to namespaces of that table in ISSUERS, or remove the account from gateways",
  );
});
