import { expect, test } from "vitest";
import type { Caller } from "../../../src/authn/caller.ts";
import type { Authorities } from "../../../src/ca/authorities.ts";
import type { AuditEvent } from "../../../src/ca/issuance/audit-event.ts";
import { grantedOrder, grantedTo } from "../../../src/ca/issuance/internal/granted.ts";
import { Policy } from "../../../src/ca/policy/policy.ts";
import { PolicyTable } from "../../../src/ca/policy/rule.ts";
import { tokenIssuerWithoutKeys } from "../../testkit/callers/token-issuers.ts";
import { clusterLocal, proved, workload } from "../../testkit/pki/certificates.ts";

const callerOf = (namespace: string, name: string, more: Partial<Caller> = {}): Caller => ({
  spiffeId: workload(namespace, name, clusterLocal),
  account: { namespace, name },
  proof: proved,
  ...more,
});
const issuers = ["https://a.test", "https://b.test"].map((name) => tokenIssuerWithoutKeys(name));
const signer = callerOf("mesh", "signer", { issuer: issuers[0] });
const cart = callerOf("shop", "cart", { issuer: issuers[0] });
const serving = { kind: "serving", dnsNames: ["cart.shop.svc"] } as const;

/** Asks by these rules for a workload's certificate, or what else is asked. */
function ask(rules: readonly object[], caller: Caller, asked: object = {}) {
  const audit: AuditEvent = { event: "create-certificate", outcome: "refused", requestId: "1" };
  const policy = Policy.create(PolicyTable.schema.parse({ rules }));
  const lifetimes = { defaultSeconds: 3600, maximumSeconds: 7200 };
  const own = { product: { kind: "workload" }, spiffeId: caller.spiffeId, holder: caller };
  const whole = { ...own, requestedSeconds: 0n, keyType: "EC-P256", ...asked };
  const decide = () => grantedTo(caller, whole as never, { policy, lifetimes }, audit);
  return { decide, audit, policy };
}

const short = { name: "short", then: { maximum_life: "60s" } };

test.each<[string, object, Caller, object?]>([
  ["that nobody was named", { holder: "unnamed" }, signer, { product: serving, holder: undefined }],
  [
    "whom a serving certificate is for",
    { account: "shop/cart" },
    signer,
    { product: serving, holder: cart },
  ],
  ["that an issuer is assumed", { vouched: "assumed" }, { ...cart, mayBeProvedBy: issuers }],
  [
    "a life below none as none",
    { requestedSeconds: 0, grantedSeconds: 60 },
    cart,
    { requestedSeconds: -5n },
  ],
  ["nothing of it for others", { holder: undefined, account: undefined, vouched: undefined }, cart],
])("an entry says %s", (_, evidence, caller, asked) => {
  expect(ask([short], caller, asked).decide().evidence).toMatchObject(evidence);
});

test("a rule in shadow is compared with the live rule, and both are in the entry and the audit line", () => {
  const { decide, audit, policy } = ask([{ ...short, name: "new", shadow: true }, short], cart);
  const said = { rule: "short", policy: policy.hash, shadowRule: "new", shadowEffect: "same" };
  expect(decide().evidence).toMatchObject(said);
  expect(audit).toMatchObject({ ...said, effect: "shortened" });
});

test.each<[string, object, Caller, object?]>([
  [
    "the gateway that forwards",
    { caller: { account: "edge" } },
    { ...cart, gateway: callerOf("mesh", "edge") },
  ],
  [
    "the identity that is asked for",
    { namespace: "shop" },
    signer,
    { spiffeId: cart.spiffeId, holder: undefined },
  ],
])("a rule denies by %s, and the audit line has the policy", (_, when, caller, asked) => {
  const { decide, audit, policy } = ask(
    [{ name: "no", when, then: { deny: "no" } }],
    caller,
    asked,
  );
  expect(decide).toThrow("the rule no denies it: no");
  expect(audit).toMatchObject({ policy: policy.hash, rule: "no", effect: "denied" });
});

test("a rule's signer takes workloads alone, with the DNS names of the rule", () => {
  const [authorities, others] = [{}, {}] as [Authorities, Authorities];
  const signers = {
    authorities,
    signers: new Map([["a", { authorities: others, mayUse: () => true }]]),
  };
  const granted = { seconds: 60n, signer: "a", dnsNames: ["a.test"], evidence: {} };
  const orderOf = (product: object) =>
    grantedOrder({ product, authorities } as never, granted, signers, "rule");
  expect(orderOf({ kind: "workload" })).toEqual({
    product: { kind: "workload", signer: "a", dnsNames: ["a.test"] },
    authorities: others,
  });
  expect(orderOf(serving)).toEqual({ product: serving, authorities });
});
