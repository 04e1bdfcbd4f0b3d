import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Circumstances } from "../../../src/ca/policy/circumstances.ts";
import { Policy } from "../../../src/ca/policy/policy.ts";
import { PolicyTable } from "../../../src/ca/policy/rule.ts";
import { generatedRules } from "../../testkit/ca/generated-rules.ts";
import { naively } from "../../testkit/ca/naive-policy.ts";

const lifetimes = { defaultSeconds: 12 * 3600, maximumSeconds: 24 * 3600 };

const policyOf = (...rules: readonly object[]): Policy =>
  Policy.create(
    PolicyTable.schema.parse({ rules: rules.map((rule, i) => ({ name: `r${i}`, ...rule })) }),
  );

const cart: Circumstances = {
  cluster: "alpha",
  issuer: "https://a.test",
  namespace: "shop",
  account: "cart",
  caller: { namespace: "shop", account: "cart" },
  node: "node-7",
  proof: "token",
  product: "workload",
  requested: 0,
  key_type: "EC-P256",
};

const outcomeIn = (policy: Policy, changes: Partial<Circumstances> = {}) =>
  Policy.decide(policy, { ...cart, ...changes }, lifetimes).live.outcome;

/** What hides each attribute that may be hidden. */
const hiders = {
  cluster: "issuer",
  issuer: "issuer",
  namespace: "account",
  account: "account",
  node: "node",
  claims: "claims",
} as const;

/** What is hidden is absent. */
const hiding = (known: Circumstances): Circumstances => {
  const isHidden = (hider: string): boolean => known.hidden?.some((h) => h === hider) === true;
  const hidden = Object.entries(hiders).filter(([, hider]) => isHidden(hider));
  return { ...known, ...Object.fromEntries(hidden.map(([name]) => [name, undefined])) };
};

const circumstances: fc.Arbitrary<Circumstances> = fc
  .record({
    cluster: fc.constantFrom("alpha", "beta", undefined),
    issuer: fc.constantFrom("https://a.test", "https://b.test", undefined),
    namespace: fc.constantFrom("shop", "edge", "istio-system"),
    account: fc.constantFrom("cart", "ztunnel", "gateway"),
    caller: fc.record({
      namespace: fc.constantFrom("shop", "edge", "istio-system"),
      account: fc.constantFrom("cart", "ztunnel", "gateway"),
    }),
    node: fc.constantFrom("node-7", "node-9", undefined),
    hidden: fc.subarray(["issuer", "account", "node", "claims"] as const),
    claims: fc.constantFrom(
      undefined,
      { repository_id: "74", environment: "prod", ref: "refs/heads/main" },
      { repository_id: "75", environment: "test" },
    ),
    provedAt: fc.constantFrom(
      undefined,
      ...[new Date("2026-10-01"), new Date("2026-11-10"), new Date("2026-12-01")],
    ),
    proof: fc.constantFrom("token", "certificate", "forwarded"),
    signer: fc.constantFrom("team-a", "team-b", undefined),
    product: fc.constantFrom("workload", "serving", "intermediate", "token"),
    audiences: fc.subarray(["vault-a", "sts.amazonaws.com"]),
    requested: fc.constantFrom(0, 3600, 7200, 50_000, 86_400, 100_000),
    key_type: fc.constantFrom("EC-P256", "EC-P384", "RSA", "Ed25519"),
  })
  .map(hiding);

test("a rule by claims is for tokens that have them, and reads no property that is none", () => {
  const policy = policyOf({ when: { claims: { constructor: "*" } }, then: { deny: "no" } });
  expect(outcomeIn(policy, { claims: { ref: "a" } }).denied).toBeUndefined();
  const byRef = policyOf({ when: { claims: { ref: "a*" } }, then: { deny: "no" } });
  expect(outcomeIn(byRef, { claims: { ref: "a/b" } }).denied).toBe("the rule r0 denies it: no");
  expect(outcomeIn(byRef).denied).toBeUndefined();
  expect(outcomeIn(byRef, { hidden: ["claims"] }).denied).toBe(
    "the rule r0 denies it: nothing shows that it is for nobody of that kind",
  );
});

test("decides as somebody who reads the rules from top to bottom", () => {
  fc.assert(
    fc.property(generatedRules, circumstances, (rules, known) => {
      const policy = Policy.create(PolicyTable.schema.parse({ rules }));
      const { live, shadow } = Policy.decide(policy, known, lifetimes);
      const { outcome } = live;
      const expected = naively(rules, known, lifetimes);
      expect([live.rule?.name, outcome.denied !== undefined]).toEqual([
        expected.rule,
        expected.isRefused,
      ]);
      if (!expected.isRefused) expect(outcome.lifeSeconds).toBe(expected.seconds);
      // A rule in shadow is what would Policy.decide if it were live.
      const all = rules.map((rule) => ({ ...rule, shadow: false }));
      const would = naively(all, known, lifetimes).rule;
      expect(shadow?.rule?.name ?? live.rule?.name).toBe(would);
    }),
    { numRuns: 2000 },
  );
});

describe("a rule", () => {
  test("chooses the signer of workloads alone", () => {
    const policy = policyOf({ then: { signer: "team-a" } });
    expect(outcomeIn(policy).signer).toBe("team-a");
    expect(outcomeIn(policy, { signer: "team-b" }).signer).toBe("team-a");
    expect(outcomeIn(policy, { product: "serving" }).signer).toBeUndefined();
  });

  test("gives DNS names of whole labels, and none to an account with a dot", () => {
    const dns_names = ["{account}.{namespace}.a.test", "{namespace}.{namespace}.a.test", "b.test"];
    const policy = policyOf({ then: { dns_names } });
    expect(outcomeIn(policy).dnsNames).toEqual(["cart.shop.a.test", "shop.shop.a.test", "b.test"]);
    expect(outcomeIn(policy, { product: "serving" }).dnsNames).toBeUndefined();
    for (const account of ["a.b", "x".repeat(64), "*", ""]) {
      expect(outcomeIn(policy, { account }).denied).toBe(
        "the rule r0 makes no DNS name of the account's",
      );
    }
    for (const bad of [
      "{account}-x.test",
      "x{account}.test",
      "{pod}.test",
      "*.test",
      "A.test",
      "10.0.0.1",
    ]) {
      expect(() => policyOf({ then: { dns_names: [bad] } })).toThrow();
    }
  });

  test("over an unknown life is not certain", () => {
    const policy = policyOf({ when: { requested_over: "1h" }, then: { maximum_life: "1h" } });
    const known = { ...cart, requested: undefined };
    expect(Policy.decide(policy, known, lifetimes).live).toMatchObject({ isCertain: false });
  });
});

test("the hash tells lists apart, and knows the order and the shadow", () => {
  const one = { name: "one", when: { namespace: "a" } };
  const two = { name: "two", when: { namespace: "b" } };
  const tables = [
    { rules: [one, two] },
    { rules: [two, one] },
    { rules: [one] },
    { rules: [one, two], shadow: true },
  ];
  const hashes = tables.map((table) => Policy.create(PolicyTable.schema.parse(table)).hash);
  expect(new Set(hashes).size).toBe(4);
  const spelled = { rules: [{ ...one, when: { namespace: ["a"] } }, two], shadow: false };
  expect(Policy.create(PolicyTable.schema.parse(spelled)).hash).toBe(hashes[0]);
});

test("the effect of one outcome against another", () => {
  const usual = { lifeSeconds: 3600, signer: undefined };
  const effects = [
    Policy.effect({ ...usual, denied: "no" }, usual),
    Policy.effect({ ...usual, lifeSeconds: 60 }, usual),
    Policy.effect({ ...usual, lifeSeconds: 7200 }, usual),
    Policy.effect({ ...usual, signer: "team-a" }, usual),
    Policy.effect({ ...usual, dnsNames: ["a.test"] }, usual),
    Policy.effect(usual, { ...usual, denied: "no" }),
    Policy.effect(usual, usual),
    Policy.effect({ ...usual, denied: "no" }, { ...usual, denied: "because" }),
  ];
  const changed = ["changed", "changed", "changed"];
  expect(effects).toEqual(["denied", "shortened", ...changed, "allowed", "same", "same"]);
});

test.each<[string, object]>([
  ["over claims that names none", { when: { claims: {} } }],
  ["that gives no life", { then: { maximum_life: "0s" } }],
  ["with a placeholder in a label", { then: { dns_names: ["a-{account}.test"] } }],
  ["with the name of another", { name: "r0" }],
])("a rule %s is refused", (_, rule) => {
  expect(() => policyOf({}, rule)).toThrow();
});
