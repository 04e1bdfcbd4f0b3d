import { describe, expect, test } from "vitest";
import type { Authorities } from "../../src/ca/authorities.ts";
import { namedSigners, type SignerTable } from "../../src/config/signer-table.ts";
import { accountRights, namespaceRights, tokenIssuers } from "../../src/config/token-issuers.ts";
import { sharePromises } from "../../src/node/limits/promise-sharing.ts";
import type { ServiceAccount } from "../../src/pki/spiffe-id.ts";
import { tokenIssuerWithoutKeys } from "../testkit/callers/token-issuers.ts";
import { configurationOf, issuer, issuersOf } from "../testkit/configuration.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { proved, workload } from "../testkit/pki/certificates.ts";

const rightsOf = (table: object) => {
  const [parsed] = issuersOf({ issuer, node_reach: "anywhere", ...table });
  if (!parsed) throw new Error("no table");
  return { ...namespaceRights(parsed), ...accountRights(parsed) };
};

const account = (text: string): ServiceAccount => {
  const [namespace = "", ...name] = text.split("/");
  return { namespace, name: name.join("/") };
};

const strangers = ["istio-system/other", "other/ztunnel", "istio-system/ztunnel/x", "/", ""];

test("an issuer without rights vouches for every namespace, and nobody has more", () => {
  const rights = rightsOf({});
  expect(rights.mayVouchFor(account("foo/bar"))).toBe(true);
  expect(rights.isNodeAccount(account("istio-system/ztunnel"))).toBe(false);
  expect(rights.mayForwardIdentities?.(account("foo/gateway"))).toBe(false);
  for (const right of ["gatewayNames", "clusterSigner", "intermediateRights"] as const)
    expect(rights[right]).toBeUndefined();
});

test("an issuer with subjects vouches within its namespaces, and has no right more", () => {
  const subjects = [
    { name: "a", claims: { b: "c" }, namespace: "team-{d}", account: "deploy" },
    { name: "e", claims: { f: "g" }, namespace: "ops", account: "r-{h}" },
  ];
  const values = {
    issuer,
    audiences: ["https://ca.test"],
    namespaces: ["team-a*", "ops", "shop"],
    jwt_audiences: ["sts.*"],
    subjects,
  };
  const configuration = configurationOf({ JWT_ISSUER: "https://ca.test", ISSUERS: [values] });
  const fetching = { fetchTrusting: () => fetch };
  const platform = { fetching, log: createEventRecorder(), shareWork: sharePromises };
  const [rights] = tokenIssuers(configuration, platform);
  if (!rights?.subjects) throw new Error("no subjects");
  const may = (text: string): boolean => rights.mayVouchFor(account(text));
  expect(["team-ab/deploy", "ops/r-1", "team-b/deploy"].filter(may)).toHaveLength(2);
  const audiences = ["sts.amazonaws.com", "vault"];
  expect(audiences.map((each) => rights.mayAddress?.(each))).toEqual([true, false]);
  const { isNodeAccount, requireNode, gatewayNames, mayForwardIdentities } = rights;
  const { clusterSigner, intermediateRights, review } = rights;
  const others = [isNodeAccount, requireNode, gatewayNames, mayForwardIdentities, clusterSigner];
  expect([...others, intermediateRights, review].filter((each) => each)).toEqual([]);
});

test.each([
  ["team-a", true],
  ["team", false],
  ["a-team-a", false],
  ["shared", true],
])("vouches for namespace %s: %s", (namespace, may) => {
  const { mayVouchFor } = rightsOf({ namespaces: ["team-*", "shared"] });
  expect(mayVouchFor({ namespace, name: "any" })).toBe(may);
});

test("knows its node proxies by namespace and name", () => {
  const { isNodeAccount } = rightsOf({ trusted_node_accounts: ["istio-system/ztunnel"] });
  expect(isNodeAccount(account("istio-system/ztunnel"))).toBe(true);
  expect(strangers.filter((each) => isNodeAccount(account(each)))).toEqual([]);
});

test("gives each gateway its own names, and the right to forward identities to those that have it", () => {
  const { gatewayNames, mayForwardIdentities } = rightsOf({
    gateways: [
      { account: "foo/edge", dns_names: ["edge.test"] },
      { account: "foo/inner", dns_names: ["inner.test"], forwards: "identities" },
    ],
  });
  expect(gatewayNames?.(account("foo/edge"))).toEqual(["edge.test"]);
  expect(gatewayNames?.(account("foo/inner"))).toEqual(["inner.test"]);
  expect(mayForwardIdentities?.(account("foo/inner"))).toBe(true);
  expect(mayForwardIdentities?.(account("foo/edge"))).toBe(false);
  expect(strangers.filter((each) => gatewayNames?.(account(each)))).toEqual([]);
  expect(strangers.filter((each) => mayForwardIdentities?.(account(each)))).toEqual([]);
});

test("lets a signer of the cluster sign for its namespaces and names, and for no others", () => {
  const { clusterSigner } = rightsOf({
    cluster_signers: [
      { account: "istio-system/signer", namespaces: ["web-*"] },
      { account: "istio-system/serving", dns_names: ["*.svc"] },
    ],
  });
  const signer = clusterSigner?.(account("istio-system/signer"));
  const serving = clusterSigner?.(account("istio-system/serving"));
  expect(signer?.maySignFor(account("web-1/any"))).toBe(true);
  expect(signer?.maySignFor(account("db/any"))).toBe(false);
  expect(signer?.mayName("a.foo.svc")).toBe(false);
  expect(serving?.mayName("a.foo.svc")).toBe(true);
  expect(serving?.mayName("a.foo.svc.evil.test")).toBe(false);
  expect(serving?.maySignFor(account("web-1/any"))).toBe(false);
  expect(strangers.filter((each) => clusterSigner?.(account(each)))).toEqual([]);
});

test("bounds the intermediates of an account, and gives nobody else any", () => {
  const other = { account: "edge/istiod", trust_domain: "c.test", name_constraints: true };
  const { intermediateRights } = rightsOf({
    intermediates: [
      { account: "istio-system/istiod", trust_domain: "b.test", path_length: 1 },
      other,
    ],
  });
  expect(intermediateRights?.(account("istio-system/istiod"))).toEqual({
    trustDomain: "b.test",
    pathLength: 1,
    isConstrained: false,
  });
  expect(intermediateRights?.(account("edge/istiod"))).toMatchObject({ isConstrained: true });
  expect(strangers.filter((each) => intermediateRights?.(account(each)))).toEqual([]);
});

const authorities: Authorities = {
  at: () => Promise.reject(new Error("no test looks at the authorities")),
  renew: async () => {},
};

const table = (name: string, ...callers: SignerTable["callers"]): SignerTable => ({
  name,
  authority_key: "EC-P256",
  mesh_bundle: false,
  callers,
});

const everybody = { namespaces: ["*"], accounts: ["*"] };
const cluster = "https://a.test";

/** Whether a caller of this issuer may use the signer for the account; without an issuer, one with a certificate. */
function mayUse(signer: SignerTable, issuer: string | undefined, account: ServiceAccount) {
  const named = namedSigners([signer], new Map([[signer.name, { authorities }]])).get(signer.name);
  const vouching = issuer === undefined ? undefined : tokenIssuerWithoutKeys(issuer);
  const spiffeId = workload(account.namespace, account.name);
  return named?.mayUse({ spiffeId, account, proof: proved, issuer: vouching }, account);
}

const shop = { namespace: "shop", name: "cart" };

describe("a named signer", () => {
  test("has the authorities of its own store, and does not exist without one", () => {
    const own: Authorities = { ...authorities };
    const both = new Map([
      ["a", { authorities }],
      ["b", { authorities: own }],
    ]);
    const signersOf = (stores: typeof both) => namedSigners([table("a"), table("b")], stores);
    expect([...signersOf(both).keys()]).toEqual(["a", "b"]);
    expect(signersOf(both).get("b")?.authorities).toBe(own);
    expect([...signersOf(new Map([["b", { authorities: own }]])).keys()]).toEqual(["b"]);
    expect(signersOf(new Map())).toEqual(new Map());
  });

  test.each<[string, SignerTable["callers"][number], string | undefined, boolean]>([
    ["of its issuer", { issuer: cluster, ...everybody }, cluster, true],
    ["of its namespace", { issuer: cluster, namespaces: ["sh*"], accounts: ["*"] }, cluster, true],
    ["with its name", { issuer: cluster, namespaces: ["*"], accounts: ["cart"] }, cluster, true],
    ["of another issuer", { issuer: cluster, ...everybody }, "https://b.test", false],
    ["of an issuer that begins alike", { issuer: cluster, ...everybody }, `${cluster}/`, false],
    ["of a certificate", { issuer: cluster, ...everybody }, undefined, false],
    ["elsewhere", { issuer: cluster, namespaces: ["db"], accounts: ["*"] }, cluster, false],
    ["by another name", { issuer: cluster, namespaces: ["*"], accounts: ["car"] }, cluster, false],
  ])("serves an account %s: %j, %s → %s", (_, callers, issuer, may) => {
    expect(mayUse(table("a", callers), issuer, shop)).toBe(may);
  });

  test("serves nobody without a rule, each of several, and mixes no two rules", () => {
    const [inShop, carts] = [
      { issuer: cluster, namespaces: ["shop"], accounts: ["till"] },
      { issuer: cluster, namespaces: ["db"], accounts: ["cart"] },
    ];
    expect(mayUse(table("a"), cluster, shop)).toBe(false);
    expect(mayUse(table("a", inShop, carts), cluster, shop)).toBe(false);
    const cartsInDb = { namespace: "db", name: "cart" };
    expect(mayUse(table("a", inShop, carts), cluster, cartsInDb)).toBe(true);
  });
});
