import fc from "fast-check";
import type { WrittenRule } from "./naive-policy.ts";

const some = (...values: readonly string[]): fc.Arbitrary<string[]> =>
  fc.subarray([...values], { minLength: 1 });

const hours = fc.integer({ min: 1, max: 24 });
const since = fc.constantFrom(
  "2026-11-01T00:00:00Z",
  "2026-11-23T00:00:00Z",
  "2027-02-01T00:00:00Z",
);

type Members = Readonly<Record<string, fc.Arbitrary<WrittenRule["when"][string]>>>;

const conditions: Members = {
  cluster: some("alpha", "beta", "a*", "*"),
  issuer: some("https://a.test", "https://b.test", "https://*"),
  namespace: some("shop", "istio-system", "s*p", "edge", "*"),
  account: some("cart", "c*", "ztunnel", "*t*", "gateway"),
  caller: fc.record(
    { namespace: some("shop", "istio-system", "edge"), account: some("cart", "ztunnel", "*") },
    { requiredKeys: [] },
  ),
  proof: some("token", "certificate", "forwarded"),
  signer: some("team-a", "team-*", "*"),
  product: some("workload", "serving", "intermediate", "token"),
  requested_over: hours.map((number) => `${number}h`),
  key_type: some("EC-P256", "EC-P384", "RSA"),
  claims: fc.oneof(
    fc.record({ repository_id: some("74", "7*", "*") }),
    fc.record({ environment: some("prod", "test"), ref: some("refs/*", "*") }),
  ),
};

/**
 * A condition of at most two members, beside those that it must have: one of all members would fit no request.
 */
const conditionOf = (required: Members = {}) =>
  fc
    .subarray(Object.entries(conditions), { maxLength: 2 })
    .chain((chosen) => fc.record({ ...Object.fromEntries(chosen), ...required }));

const shortening = fc
  .tuple(hours, hours, fc.boolean(), fc.boolean())
  .map(([one, other, hasMaximum, hasDefault]) => ({
    ...(hasMaximum && { maximum_life: `${Math.max(one, other)}h` }),
    ...(hasDefault && { default_life: `${Math.min(one, other)}h` }),
  }));

const deny = fc.constant({ deny: "no reason" });

const named = fc.record({
  when: conditionOf({ product: fc.constant(["workload", "serving"]) }),
  then: fc.constant({ dns_names: ["{account}.{namespace}.a.test"] }),
});

const addressed = fc.record({
  when: conditionOf({ product: fc.constant(["token"]) }),
  then: fc.record({ audiences: some("vault-*", "vault-a", "sts.*") }),
});

const ordinary = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({
        when: conditionOf(),
        then: fc.oneof(deny, shortening, fc.constant({ key_types: ["EC-P256", "EC-P384", "RSA"] })),
      })
      .filter(({ when, then }) => !("key_types" in then) || `${when["product"]}` !== "token"),
  },
  named,
  addressed,
);

/** Rules over the node deny, or do nothing. */
const byNode = fc
  .record({
    when: conditionOf({ node: some("node-7", "node-*", "node-9") }),
    then: fc.oneof(deny, fc.constant({})),
    since,
  })
  .map(({ since, ...rule }) => ({ ...rule, ...("deny" in rule.then && { since }) }));

/** Lists of rules without a contradiction. */
export const generatedRules: fc.Arbitrary<readonly WrittenRule[]> = fc
  .array(fc.tuple(fc.oneof({ weight: 4, arbitrary: ordinary }, byNode), fc.boolean()), {
    maxLength: 8,
  })
  .map((list) => list.map(([rule, shadow], i) => ({ name: `rule-${i}`, shadow, ...rule })));
