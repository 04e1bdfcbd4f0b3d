import { describe, expect, test } from "vitest";
import { recordedNames, subjectTableOf } from "../../src/config/internal/subject-table.ts";
import { configurationOf, expectOneFault, faultsOf, issuersOf } from "../testkit/configuration.ts";

const github = "https://token.actions.githubusercontent.com";
const deploy = {
  name: "deploy",
  claims: { repository_id: "74", environment: ["prod", "test"] },
  namespace: "ci",
  account: "deploy",
};
const table = (changes: object = {}, ...subjects: readonly object[]) => ({
  issuer: github,
  audiences: ["https://ca.test"],
  namespaces: ["ci"],
  subjects: subjects.length > 0 ? subjects : [deploy],
  ...changes,
});
const mesh = (namespaces: readonly string[]) => ({ issuer: "https://a.test", namespaces });

describe("a table with subjects", () => {
  test("has entries with claims of objects, numbers and booleans", () => {
    const claims = {
      "https://sts.amazonaws.com/": { aws_account: "1", request: { tags: ["a", 2, true] } },
      email_verified: true,
    };
    const [read] = issuersOf(table({}, { ...deploy, claims, once: true, maximum_age: "10m" }));
    expect(read?.subjects).toEqual([
      {
        name: "deploy",
        namespace: "ci",
        account: "deploy",
        once: true,
        maximumAgeSeconds: 600,
        conditions: [
          { path: ["https://sts.amazonaws.com/", "aws_account"], accepted: ["1"] },
          {
            path: ["https://sts.amazonaws.com/", "request", "tags"],
            accepted: ["a", "2", "true"],
          },
          { path: ["email_verified"], accepted: ["true"] },
        ],
      },
    ]);
  });

  test("records the claims that its entries name, or those that the operator chooses", () => {
    const templated = {
      ...deploy,
      account: "r-{repository_owner_id}",
      claims: { access_token: "x", ref: "a" },
    };
    const [usual, chosen] = [
      issuersOf(table({}, templated))[0],
      issuersOf(table({ recorded_claims: ["run_id", '"a.b".c'] }))[0],
    ];
    expect(usual && recordedNames(usual)).toEqual(["ref", "repository_owner_id"]);
    expect(chosen && subjectTableOf(chosen)?.recordedClaims).toEqual([["run_id"], ["a.b", "c"]]);
  });

  test("may have 200 entries", () => {
    const many = Array.from({ length: 200 }, (_, i) => ({
      ...deploy,
      name: `n${i}`,
      claims: { repository_id: `${i}` },
    }));
    expect(issuersOf(table({}, ...many))[0]?.subjects).toHaveLength(200);
    expectOneFault(
      { ISSUERS: [table({}, ...many, { ...deploy, name: "x" })] },
      "ISSUERS[0].subjects",
    );
  });

  test.each<[string, object]>([
    ["trusted_node_accounts", { trusted_node_accounts: ["a/b"], node_reach: "anywhere" }],
    ["gateways", { gateways: [{ account: "a/b", dns_names: ["g.test"] }] }],
    ["cluster_signers", { cluster_signers: [{ account: "a/b", namespaces: ["a"] }] }],
    ["intermediates", { intermediates: [{ account: "a/b", trust_domain: "a.test" }] }],
    ["node_reach", { node_reach: "anywhere" }],
    ["node_checks", { node_checks: "claims" }],
    ["kubernetes", { kubernetes: { server: "https://k", credential: "CLUSTER_CREDENTIAL_A" } }],
  ])("has no %s", (key, changes) => {
    const faults = faultsOf({ ISSUERS: [table(changes)] });
    expect(faults).toContain(
      `ISSUERS[0].${key}: excludes subjects: an issuer has ServiceAccounts, or a table of claims`,
    );
  });

  test.each([
    ["none", undefined],
    ["that of every mesh", ["istio-ca"]],
    ["AWS", ["sts.amazonaws.com"]],
    ["Azure", ["https://ca.test", "api://AzureADTokenExchange"]],
    ["the owner at GitHub", ["https://github.com/octo-org"]],
    ["Google's", ["//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p"]],
    ["the issuer itself", [github]],
  ])("must name an audience of its own, and not %s", (_, audiences) => {
    expectOneFault({ ISSUERS: [table({ audiences })] }, "ISSUERS[0].audiences");
  });

  test("may not have the organisation as its audience, which CircleCI puts into every token", () => {
    const circle = { issuer: "https://oidc.circleci.com/org/4711", audiences: ["4711"] };
    expectOneFault({ ISSUERS: [table(circle)] }, "ISSUERS[0].audiences");
  });

  test("keeps its namespaces", () => {
    expectOneFault(
      { ISSUERS: [table({}, { ...deploy, namespace: "prod" })] },
      "ISSUERS[0].subjects[0].namespace",
    );
  });

  test("has no entry that an entry before it hides", () => {
    const narrow = {
      ...deploy,
      name: "narrow",
      claims: { repository_id: "74", environment: "prod", ref: "x" },
    };
    const partly = { ...narrow, name: "partly", claims: { repository_id: ["74", "75"] } };
    expect(
      issuersOf(table({}, { ...narrow, claims: { repository_id: "74" } }, partly)),
    ).toHaveLength(1);
    expect(faultsOf({ ISSUERS: [table({}, deploy, partly, narrow)] })).toEqual([
      "ISSUERS[0].subjects[2].claims: never counts: deploy before it fits all of its tokens",
    ]);
    expect(issuersOf(table({}, narrow, deploy))[0]?.subjects).toHaveLength(2);
    const needing = { ...deploy, name: "needing", account: "r-{run_id}" };
    expect(issuersOf(table({}, needing, { ...narrow, name: "n2" }))[0]?.subjects).toHaveLength(2);
  });

  test.each<[string, object, string]>([
    ["no claims", { claims: {} }, "claims"],
    ["a claim that is null", { claims: { a: null } }, "claims"],
    ["a number that JSON does not keep", { claims: { a: 2 ** 53 } }, "claims"],
    ["a fraction", { claims: { a: 1.5 } }, "claims"],
    ["two stars in a part", { claims: { a: "*a*" } }, "claims"],
    ["an empty text", { claims: { a: "" } }, "claims"],
    ["an empty list", { claims: { a: [] } }, "claims"],
    [
      "17 claims",
      { claims: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`c${i}`, "x"])) },
      "claims",
    ],
    ["a name with a quotation mark", { claims: { 'a"b': "x" } }, "claims"],
    [
      "objects nine deep",
      { claims: { a: { b: { c: { d: { e: { f: { g: { h: { i: "x" } } } } } } } } } },
      "claims",
    ],
    ["two claims in one label", { account: "{a}-{b}" }, "account"],
    ["a brace that is open", { account: "a-{b" }, "account"],
    ["a claim without a name", { account: "a-{}" }, "account"],
    ["a star", { account: "a-*" }, "account"],
    ["a namespace with a dot", { namespace: "a.b" }, "namespace"],
    ["a SPIFFE ID", { account: "spiffe://b.test/ns/a/sa/b" }, "account"],
    ["a name in upper case", { name: "Deploy" }, "name"],
    ["no age", { maximum_age: "0s" }, "maximum_age"],
    ["a trust domain", { trust_domain: "b.test" }, "trust_domain"],
  ])("takes no entry with %s", (_, changes, key) => {
    const faults = faultsOf({ ISSUERS: [table({}, { ...deploy, ...changes })] });
    expect(faults).toEqual([expect.stringContaining(`ISSUERS[0].subjects[0].${key}: `)]);
  });

  test("takes no name twice", () => {
    const other = { ...deploy, claims: { a: "b" } };
    expectOneFault({ ISSUERS: [table({}, deploy, other)] }, "ISSUERS[0].subjects");
  });

  test.each([["access_token"], ["client_secret"], ["at_hash"], ["a..b"]])(
    "records no %s",
    (name) => {
      expectOneFault(
        { ISSUERS: [table({ recorded_claims: [name] })] },
        "ISSUERS[0].recorded_claims[0]",
      );
    },
  );

  test("must say what is recorded of more than 16 claims", () => {
    const claims = (from: number) =>
      Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`c${from + i}`, "x"]));
    const entries = [0, 9].map((from) => ({ ...deploy, name: `n${from}`, claims: claims(from) }));
    expectOneFault({ ISSUERS: [table({}, ...entries)] }, "ISSUERS[0].recorded_claims");
  });

  test("is no issuer of this CA's own tokens", () => {
    const changes = { JWT_ISSUER: github, ISSUERS: [table()] };
    expect(faultsOf(changes)[0]).toMatch(/^ISSUERS\[0\]\.issuer: must not be JWT_ISSUER/);
  });
});

test("recorded_claims stands beside subjects alone", () => {
  expectOneFault(
    { ISSUERS: [{ issuer: "https://a.test", recorded_claims: ["a"] }] },
    "ISSUERS[0].recorded_claims",
  );
});

describe("accounts that another issuer may vouch for", () => {
  const byClaim = { ...deploy, account: "repo-{repository_id}" };
  const byNamespace = { ...deploy, namespace: "team-{namespace_id}" };

  test("are given by their names", () => {
    expect(configurationOf({ ISSUERS: [mesh(["*"]), table()] }).issuers).toHaveLength(2);
  });

  test.each<[string, readonly string[], object]>([
    ["in a namespace of it", ["ci"], table({}, byClaim)],
    ["in a namespace of its glob", ["c*"], table({}, byClaim)],
    ["where it has every namespace", ["*"], table({}, byClaim)],
    ["in a namespace of a claim", ["team-7"], table({ namespaces: ["team-*"] }, byNamespace)],
    ["of another table of claims", ["ci"], table({}, byClaim)],
  ])("are given to no claim: %s", (what, namespaces, claiming) => {
    const other =
      what === "of another table of claims"
        ? { ...table({ issuer: "https://gitlab.test" }), namespaces }
        : mesh(namespaces);
    const beside = { issuer: "https://beside.test", namespaces: ["edge"] };
    const faults = faultsOf({ ISSUERS: [beside, other, claiming] });
    expect(faults).toEqual([
      expect.stringMatching(/^ISSUERS\[2\]\.subjects\[0\]\.\w+: may be an account of https:/),
    ]);
  });

  test.each<[string, readonly string[], object]>([
    ["elsewhere", ["shop"], table({}, byClaim)],
    [
      "that the namespaces of the table exclude",
      ["team-b*"],
      table({ namespaces: ["team-a*"] }, byNamespace),
    ],
    ["that the text around the claim excludes", ["ops"], table({ namespaces: ["*"] }, byNamespace)],
  ])("are not those %s", (_, namespaces, claiming) => {
    expect(issuersOf(mesh(namespaces), claiming)).toHaveLength(2);
  });
});
