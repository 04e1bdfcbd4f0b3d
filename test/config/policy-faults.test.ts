import { describe, expect, test } from "vitest";
import { configurationOf, expectOneFault, faultsOf, issuer } from "../testkit/configuration.ts";

const rulesOf = (...rules: readonly object[]) => ({
  POLICY: { rules: rules.map((rule, i) => ({ name: `r${i}`, ...rule })) },
});

const since = "2026-11-23T12:00:00Z";

describe("POLICY", () => {
  test("is a table, or JSON in a text", () => {
    const table = rulesOf({ when: { namespace: "shop" }, then: { maximum_life: "1h" } });
    const { policy } = configurationOf(table);
    expect(policy?.rules).toEqual([
      { name: "r0", shadow: false, when: { namespace: ["shop"] }, then: { maximum_life: 3600 } },
    ]);
    expect(configurationOf({ POLICY: JSON.stringify(table.POLICY) }).policy).toEqual(policy);
    expect(configurationOf({}).policy).toBeUndefined();
  });

  test.each<[string, object]>([
    ["name", { name: "Payments" }],
    ["when.cluster[0]", { when: { cluster: "a b" } }],
    ["when.namespace", { when: { namespace: [] } }],
    ["when.caller.account[0]", { when: { caller: { account: "A" } } }],
    ["when.colour", { when: { colour: "red" } }],
    ["when.product[0]", { when: { product: "secret" } }],
    ["when.requested_over", { when: { requested_over: "long" } }],
    ["then.maximum_life", { then: { maximum_life: "0s" } }],
    ["then.deny", { then: { deny: "" } }],
    ["then.path", { then: { path: "/x" } }],
    ["then.deny", { then: { deny: "no", maximum_life: "1h" } }],
    ["then.default_life", { then: { default_life: "2h", maximum_life: "1h" } }],
    ["then.maximum_life", { then: { maximum_life: "2161h" } }],
    ["then.default_life", { then: { default_life: "2161h" } }],
    ["then.key_types", { when: { key_type: "RSA" }, then: { key_types: "EC-P256" } }],
    ["then.signer", { then: { signer: "nobody" } }],
    ["when.node", { when: { node: "n" }, then: { maximum_life: "1h" } }],
    ["then.audiences", { when: { product: "serving" }, then: { audiences: "a" } }],
    ["then.dns_names", { when: { product: "serving" }, then: { dns_names: ["a.test"] } }],
    ["then.dns_names[0]", { then: { dns_names: ["{account}s.test"] } }],
    ["since", { when: { node: "n" }, then: { deny: "no" } }],
    ["then.key_types", { when: { product: "token" }, then: { key_types: "RSA" } }],
    ["since", { since, then: { deny: "no" } }],
    ["since", { since, when: { node: "n" } }],
  ])("refuses a rule by its %s", (place, rule) => {
    expectOneFault(rulesOf({}, rule), `POLICY.rules[1].${place}`);
  });

  test("refuses a signer for products that have none, and a name twice", () => {
    const SIGNERS = [{ name: "team-a", callers: [{ issuer }] }];
    const when = { product: "serving" };
    const rule = { when, then: { signer: "team-a" } };
    expectOneFault(
      { SIGNERS, ...rulesOf({ then: { signer: "b" } }) },
      "POLICY.rules[0].then.signer",
    );
    const both = { when: { product: ["token", "workload"] }, then: { signer: "team-a" } };
    expect(configurationOf({ SIGNERS, ...rulesOf(both) }).policy?.rules).toHaveLength(1);
    expect(faultsOf({ SIGNERS, ...rulesOf(rule) })).toEqual([
      "POLICY.rules[0].then.signer: has an effect on the product workload alone",
    ]);
    expectOneFault(rulesOf({ name: "a" }, { name: "a" }), "POLICY.rules");
  });

  test("a rule by claims changes nothing that a renewal would get without it", () => {
    const subjects = [{ name: "a", claims: { ref: "x" }, namespace: "ci", account: "a" }];
    const claiming = { issuer, audiences: ["https://ca.test"], subjects };
    const rules = rulesOf({ when: { claims: { ref: "x" } }, then: { maximum_life: "1h" } });
    expect(configurationOf({ ISSUERS: [claiming], ...rules }).warnings.join()).not.toContain(
      "POLICY",
    );
    const renewing = { ...claiming, renewal_limit: "1h" };
    const beside = [{ ...claiming, issuer: "https://b.test" }, renewing];
    expectOneFault({ ISSUERS: beside, ...rules }, "POLICY.rules[0].when.claims");
    expect(configurationOf(rules).warnings).toContainEqual(
      expect.stringMatching(/never decides: no table of ISSUERS with subjects records the claim$/),
    );
    const narrow = { when: { claims: { ref: "x", run: "1" } }, then: { deny: "no" } };
    const wide = { when: { claims: { ref: ["x", "y"] } }, then: { deny: "no" } };
    const recorded = { ...claiming, recorded_claims: ["ref", "run"] };
    const warnings = (...list: readonly object[]) =>
      configurationOf({ ISSUERS: [recorded], ...rulesOf(...list) }).warnings.join();
    expect(warnings(wide, narrow)).toContain("(r1) never decides: r0 before it fits all");
    expect(warnings(narrow, wide)).not.toContain("never decides");
  });

  test("a rule by the node may deny from an instant on, or make an exception", () => {
    const denying = { since, when: { node: "n" }, then: { deny: "no" } };
    expect(configurationOf(rulesOf(denying, { when: { node: "m" } })).policy?.rules).toHaveLength(
      2,
    );
  });
});

describe("warns of a rule that never decides:", () => {
  const warned = (values: object): readonly string[] =>
    configurationOf(values as Record<string, unknown>).warnings.filter((each) =>
      each.startsWith("POLICY"),
    );
  const ISSUERS = [
    { issuer, cluster: "alpha", namespaces: ["shop", "pay-*"] },
    { issuer: "https://b.test", cluster: "beta", namespaces: ["edge"] },
  ];

  test("of tokens that ask for a key, a signer, or a longer life than any", () => {
    const tables = [{ issuer, jwt_audiences: ["*"] }];
    const SIGNERS = [{ name: "team-a", callers: [{ issuer }] }];
    const JWT_ISSUER = "https://ca.test";
    const rules = [{ key_type: "RSA" }, { signer: "team-a" }, { requested_over: "1h" }].map(
      (more) => ({ when: { product: "token", ...more }, then: { deny: "no" } }),
    );
    const found = warned({ ISSUERS: tables, SIGNERS, JWT_ISSUER, ...rulesOf(...rules) });
    expect(found.map((each) => each.split(": ")[1])).toEqual([
      "a token has no key",
      "a request for no workload names a signer",
      "who asks for more than MAX_JWT_TTL is refused anyway",
    ]);
    const [fine] = rulesOf({ when: { product: "token", requested_over: "59m" } }).POLICY.rules;
    expect(warned({ ISSUERS: tables, JWT_ISSUER, POLICY: { rules: [fine] } })).toEqual([]);
  });

  test("of audiences that no issuer's callers may have, which would deny every token", () => {
    const found = (audiences: string): readonly string[] => {
      const tables = [{ issuer, jwt_audiences: ["sts.*", "vault"] }];
      const rules = rulesOf({ when: { product: "token" }, then: { audiences } });
      return warned({ ISSUERS: tables, JWT_ISSUER: "https://ca.test", ...rules });
    };
    expect(found("vualt")).toEqual([
      "POLICY.rules[0] (r0) denies every token: no table of ISSUERS has its audiences",
    ]);
    expect([...found("*.amazonaws.com"), ...found("vault")]).toEqual([]);
  });

  test.each<[string, object, string]>([
    ["a cluster", { cluster: "gamma" }, "no table of ISSUERS has such a cluster and issuer"],
    ["an issuer", { issuer: "https://c.*" }, "no table of ISSUERS has such a cluster and issuer"],
    ["both", { cluster: "beta", issuer }, "no table of ISSUERS has such a cluster and issuer"],
    ["a namespace", { namespace: "shops" }, "no such issuer may vouch for the namespace"],
    [
      "that of another",
      { cluster: "beta", namespace: "shop" },
      "no such issuer may vouch for the namespace",
    ],
    [
      "who asks",
      { caller: { namespace: "istio-system" } },
      "no issuer may vouch for the caller's namespace",
    ],
    ["a signer", { signer: "team-*" }, "no table of SIGNERS has the name"],
    ["a product", { product: "intermediate" }, "no table of ISSUERS lets anybody have the product"],
    ["a claim", { claims: { ref: "a" } }, "no table of ISSUERS with subjects records the claim"],
    ["a proof", { proof: "forwarded" }, "no table of ISSUERS has a gateway"],
    [
      "a life",
      { requested_over: "2160h" },
      "who asks for more than MAX_WORKLOAD_CERT_TTL is refused anyway",
    ],
  ])("%s that is not there", (_, when, why) => {
    expect(warned({ ISSUERS, ...rulesOf({ when }) })).toEqual([
      `POLICY.rules[0] (r0) never decides: ${why}`,
    ]);
  });

  test.each<[object, object, boolean]>([
    [{}, { namespace: "shop" }, true],
    [{ namespace: "pay-*" }, { namespace: ["pay-a*", "pay-b"], account: "till" }, true],
    [{ namespace: "pay-*" }, { namespace: ["pay-a", "shop"] }, false],
    [{ namespace: "pay-*", account: "till" }, { namespace: "pay-a" }, false],
    [{ namespace: "pay-a*" }, { namespace: "pay-*" }, false],
    [{ requested_over: "1h" }, { requested_over: "2h" }, true],
    [{ requested_over: "2h" }, { requested_over: "1h" }, false],
    [{ key_type: ["RSA", "EC-P256"] }, { key_type: "RSA" }, true],
    [{ node: "*" }, { node: "a" }, false],
  ])("%j covers %j: %j", (one, other, isCovered) => {
    const rules = rulesOf({ when: one }, { when: other });
    const sentence = "POLICY.rules[1] (r1) never decides: r0 before it fits all of its requests";
    expect(warned({ ISSUERS, ...rules })).toEqual(isCovered ? [sentence] : []);
  });

  test("a signer of a cluster is served too, and of several claims one may be unknown", () => {
    const cluster_signers = [{ account: "a/b", dns_names: ["*"] }];
    const serving = rulesOf({ when: { product: "serving" } });
    expect(warned({ ISSUERS: [{ issuer, cluster_signers }], ...serving })).toEqual([]);
    const subjects = [{ name: "a", claims: { ref: "x" }, namespace: "ci", account: "a" }];
    const claiming = { issuer, audiences: ["https://ca.test"], subjects };
    const rules = rulesOf({ when: { claims: { ref: "x", run: "1" } } });
    expect(warned({ ISSUERS: [claiming], ...rules }).join()).toContain("records the claim");
  });

  test("a rule in shadow hides none that is live", () => {
    const shadow = { shadow: true };
    expect(warned({ ISSUERS, ...rulesOf(shadow, {}) })).toEqual([]);
    expect(warned({ ISSUERS, ...rulesOf({}, shadow) })).toHaveLength(1);
    expect(warned({ ISSUERS, ...rulesOf(shadow, shadow) })).toHaveLength(1);
    const POLICY = { shadow: true, ...rulesOf(shadow, {}).POLICY };
    expect(warned({ ISSUERS, POLICY })).toHaveLength(1);
  });
});
