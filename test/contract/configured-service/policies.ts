import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Circumstances } from "../../../src/ca/policy/circumstances.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { generatedRules } from "../../testkit/ca/generated-rules.ts";
import { naively } from "../../testkit/ca/naive-policy.ts";
import { leafWithoutProof } from "../../testkit/pki/held-leaf.ts";
import { type ProductName, products } from "../withdrawal/denied-products.ts";
import type { ConfigurableService } from "./configurable-service.ts";
import { cart as cartId, productRequests } from "./product-requests.ts";

const alpha = { cluster: "alpha", issuer: "https://a.test", key_type: "EC-P256" } as const;
const cart = { ...alpha, namespace: "shop", account: "cart", requested: 0 } as const;
const caller = { namespace: "shop", account: "cart" };
const workload = { ...cart, caller, product: "workload", proof: "token" } as const;

/** What the CA knows of each request of the contract, as a person reads it from the cluster. */
const known: Readonly<Record<ProductName, Circumstances>> = {
  token: { ...workload, node: "node-7" },
  signer: { ...workload, node: "node-7", signer: "team-a" },
  certificate: { ...workload, proof: "certificate", hidden: ["node"] },
  forwarded: {
    ...workload,
    proof: "forwarded",
    hidden: ["node"],
    caller: { namespace: "edge", account: "gateway" },
  },
  identity: {
    ...workload,
    proof: "forwarded",
    hidden: ["node", "claims"],
    caller: { namespace: "edge", account: "envoy" },
  },
  ztunnel: {
    ...workload,
    node: "node-7",
    caller: { namespace: "istio-system", account: "ztunnel" },
  },
  pod: {
    ...workload,
    node: "node-7",
    caller: { namespace: "istio-system", account: "signer" },
  },
  service: {
    ...workload,
    node: "node-7",
    product: "serving",
    caller: { namespace: "istio-system", account: "signer" },
  },
  gateway: { ...workload, node: "node-7", product: "serving" },
  intermediate: { ...workload, node: "node-7", product: "intermediate" },
};

const lifetimes = { defaultSeconds: 86_400, maximumSeconds: 2160 * 3600 };

/** The contract of `POLICY` with every product of the CA, over the wire: nothing is issued around it. */
export function describePolicies(open: () => Promise<ConfigurableService>): void {
  const { start, ask, requests, authority, table } = productRequests(open);
  const names = Object.keys(products) as ProductName[];

  test("knows of each product what its cluster says", async () => {
    await start({ POLICY: { rules: [{ name: "nothing", shadow: true }] } });
    for (const product of names) {
      const { asked: all } = (await ask(await requests[product]())) ?? {};
      const { provedAt, ...asked } = Object(all);
      expect([product, asked]).toEqual([product, known[product]]);
      const isHeld = product === "certificate" || product === "forwarded";
      expect([product, provedAt !== undefined]).toEqual([product, isHeld]);
    }
  });

  describe("a request that hides what a denying rule asks about", () => {
    const closed = (when: object) => ({
      POLICY: { rules: [{ name: "no", when, then: { deny: "no" } }] },
    });

    test("is denied: a signer of the cluster names no requester", async () => {
      const { by, metadata } = await requests.service();
      const { Requester, ...unnamed } = { Requester: "", ...metadata };
      const asked = { ...(by && { by }), metadata: unnamed };
      await start(closed({ namespace: "shop", product: "serving" }));
      expect(await ask(await requests.service())).toMatchObject({ reason: "policy-denied" });
      expect(await ask(asked)).toMatchObject({
        reason: "policy-denied",
        asked: { hidden: ["account", "node"] },
        detail: "the rule no denies it: nothing shows that it is for nobody of that kind",
      });
      await start(closed({ namespace: "shop", product: "workload" }));
      expect(await ask(asked)).toMatchObject({ outcome: "issued" });
    });

    test("is denied: any of several issuers may have vouched for a certificate of istiod", async () => {
      const leaf = await leafWithoutProof(authority(), cartId);
      const isDenied = async (when: object, issuers: number): Promise<boolean> => {
        const both = [table(), { issuer: "https://b.test", cluster: "beta" }];
        await start({ ...closed(when), ISSUERS: both.slice(0, issuers) }, true);
        const { reason } = (await ask({ leaf })) ?? {};
        return reason === "policy-denied";
      };
      expect(await isDenied({ cluster: "beta" }, 2)).toBe(true);
      expect(await isDenied({ issuer: "https://a.test" }, 2)).toBe(true);
      expect(await isDenied({ cluster: "beta", namespace: "edge" }, 2)).toBe(false);
      expect(await isDenied({ cluster: "beta" }, 1)).toBe(false);
      expect(await isDenied({ cluster: "alpha" }, 1)).toBe(true);
    });
  });

  test("a workload has the DNS names of its rule, and never those that it asks for", async () => {
    const dns_names = ["{account}.{namespace}.mesh.test", "api.test"];
    await start({
      POLICY: { rules: [{ name: "named", when: { namespace: "shop" }, then: { dns_names } }] },
    });
    const named = ["cart.shop.mesh.test", "api.test"];
    const { by, metadata } = await requests.token();
    const asked = { ...(by && { by }), metadata: { ...metadata, DnsNames: ["evil.test"] } };
    expect(await ask(asked)).toMatchObject({ rule: "named", effect: "changed", dnsNames: named });
    expect(await ask(await requests.gateway())).toMatchObject({ dnsNames: ["cart.test"] });
    await start({
      POLICY: { rules: [{ name: "other", when: { namespace: "edge" }, then: { dns_names } }] },
    });
    expect(await ask(asked)).not.toHaveProperty("dnsNames");
  });

  test("a refusal tells its caller nothing but that", async () => {
    const rules = [{ name: "closed", then: { deny: "we moved to berlin" } }];
    await start({ POLICY: { rules } });
    const audit = await ask(await requests.token());
    expect(audit).toMatchObject({
      outcome: "refused",
      reason: "policy-denied",
      check: "closed",
      rule: "closed",
      detail: "the rule closed denies it: we moved to berlin",
      effect: "denied",
      policy: expect.stringMatching(/^[0-9a-f]{64}$/),
      asked: { ...known.token },
    });
  });
}

/**
 * The decisions of `POLICY` about every product of the CA, as another evaluator makes them. They follow from the rules
 * and from what a platform knows of a request, to which {@link describePolicies} holds each platform.
 */
export function describePolicyDecisions(open: () => Promise<ConfigurableService>): void {
  const { start, ask, requests } = productRequests(open);
  const names = Object.keys(products) as ProductName[];

  test("decides about every product as a second evaluator does", async () => {
    const lists = fc.sample(generatedRules, { numRuns: 6, seed: 3 });
    const decided = new Set<string>();
    for (const rules of lists) {
      await start({ POLICY: { rules } });
      for (const product of names) {
        const { asked, rule, reason, outcome, notAfter } =
          (await ask(await requests[product]())) ?? {};
        const { provedAt } = Object(asked);
        const shown = { ...known[product], provedAt: provedAt && new Date(provedAt) };
        const expected = naively(rules, shown, lifetimes);
        const isRefused = reason === "policy-denied";
        expect([product, rule, isRefused]).toEqual([
          ...[product, expected.rule, expected.isRefused],
        ]);
        if (rule !== undefined) decided.add(`${product} ${isRefused ? "refused" : "given"}`);
        if (outcome !== "issued") continue;
        const end = new Date(String(notAfter)).getTime();
        expect(end).toBeLessThanOrEqual(Date.now() + 1000 * expected.seconds);
      }
    }
    expect(decided).toEqual(new Set(names.flatMap((name) => [`${name} refused`, `${name} given`])));
  });

  test("a rule over the node does to each product what a denial does", async () => {
    const since = addSeconds(wholeSeconds(new Date()), -60).toISOString();
    const denied = async (node: string, secondsAgo?: number): Promise<readonly ProductName[]> => {
      const when = { node };
      await start({ POLICY: { rules: [{ name: "node", since, when, then: { deny: "stolen" } }] } });
      const refused: ProductName[] = [];
      for (const product of names) {
        const { reason } = (await ask(await requests[product](secondsAgo))) ?? {};
        if (reason === "policy-denied") refused.push(product);
      }
      return refused;
    };
    const without = (...effects: readonly string[]) =>
      names.filter((name) => !effects.includes(products[name].effects.node));
    expect(await denied("node-7")).toEqual(names);
    expect(await denied("node-8")).toEqual(without("denied"));
    expect(await denied("node-7", 30)).toEqual(without("younger"));
  });
}
