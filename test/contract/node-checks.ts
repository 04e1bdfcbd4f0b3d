import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Caller } from "../../src/authn/caller.ts";
import type { ClusterIssuer, TokenIssuer } from "../../src/authn/token-issuer.ts";
import { createIdentityPolicy, NodeReach } from "../../src/ca/issuance/identity-policy.ts";
import type { Refusal } from "../../src/foundation/refusal.ts";
import { type Pods, podsKnownSeconds } from "../../src/kubernetes/pods.ts";
import { SpiffeId, TrustDomain } from "../../src/pki/spiffe-id.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { tokenIssuerWithoutKeys } from "../testkit/callers/token-issuers.ts";
import type { FakePod } from "../testkit/kubernetes/api-server.ts";
import { refusalOf } from "../testkit/refusal.ts";

/** A cluster, and a source that knows its pods. */
interface CheckedCluster {
  /** Adds a pod, or changes one. */
  readonly put: (pod: FakePod) => void;
  readonly remove: (pod: FakePod) => void;
  readonly pods: Pods;
  /** Resolves once the source knows every change. */
  readonly settle: () => Promise<void>;
  readonly close: () => Promise<void>;
}

export const now: Date = new Date("2026-11-21T12:00:00Z");
export const trustDomain: TrustDomain = TrustDomain.parse("cluster.local") as TrustDomain;

export const ztunnel: FakePod = {
  namespace: "istio-system",
  name: "ztunnel-a",
  uid: "12345",
  account: "ztunnel",
  node: "zt-node",
};
export const onNode: FakePod = {
  namespace: "ns-a",
  name: "a-0",
  uid: "1",
  account: "sa-a",
  node: "zt-node",
};
const offNode: FakePod = { ...onNode, name: "a-1", node: "other-node" };
export const wanted = "spiffe://cluster.local/ns/ns-a/sa/sa-a";

const isZtunnel = ({ namespace, name }: Caller["account"]): boolean =>
  `${namespace}/${name}` === "istio-system/ztunnel";

export const issuerOf = (cluster: string, pods: Pods): ClusterIssuer =>
  tokenIssuerWithoutKeys(`https://${cluster}.test`, {
    cluster,
    isNodeAccount: isZtunnel,
    requireNode: NodeReach.ofPods(pods),
  });

/** The node proxy of an issuer's cluster. */
export function proxyOf(issuer: TokenIssuer, changes: Partial<Caller> = {}): Caller {
  const account = { namespace: "istio-system", name: "ztunnel" };
  return {
    spiffeId: SpiffeId.ofWorkload(trustDomain, account),
    account,
    issuer,
    proof: { provedAt: new Date(0), issuer: issuer.digest, isImpersonated: false },
    pod: { name: "ztunnel-a", uid: "12345" },
    ...changes,
  };
}

type Rule = Extract<Refusal, { reason: "impersonation-denied" }>["rule"];

export const denied = (rule: Rule): Refusal => ({ reason: "impersonation-denied", rule });

/** Every source of pods leads to the same decisions as Istio's node authorizer (docs/explanation/istio.md). */
export function describeNodeChecks(
  start: (cluster: string, clock: () => Date) => Promise<CheckedCluster>,
): void {
  let primary: CheckedCluster;
  let remote: CheckedCluster;
  let instant: Date;

  beforeEach(async () => {
    instant = now;
    const clock = () => instant;
    [primary, remote] = await Promise.all([start("primary", clock), start("remote", clock)]);
  });

  afterEach(async () => {
    await Promise.all([primary.close(), remote.close()]);
  });

  async function put({ put, settle }: CheckedCluster, pods: readonly FakePod[]): Promise<void> {
    for (const pod of pods) put(pod);
    await settle();
  }

  const policy = createIdentityPolicy(trustDomain);
  const primaryIssuer = () => issuerOf("primary", primary.pods);
  const remoteIssuer = () => issuerOf("remote", remote.pods);
  const ask = async (changes: Partial<Caller> = {}, identity = wanted) =>
    policy(proxyOf(primaryIssuer(), changes), identity, instant);

  /** Moves the clock to where an old approval no longer counts. */
  function passApproval(): void {
    instant = addSeconds(instant, podsKnownSeconds);
  }

  describe("a node proxy of one cluster", () => {
    test("is denied where no account is trusted", async () => {
      await put(primary, [ztunnel, onNode]);
      const issuer = { ...primaryIssuer(), isNodeAccount: () => false };
      const refusal = await refusalOf(() => policy(proxyOf(issuer), wanted, now));
      expect(refusal).toEqual(denied("account"));
    });

    test.each<[string, readonly FakePod[], string, Rule]>([
      ["there is no target", [ztunnel], wanted, "instance"],
      ["the target is only on another node", [ztunnel, offNode], wanted, "instance"],
      ["it names an invalid SPIFFE ID", [ztunnel, onNode], "not-spiffe-idenditity", "identity"],
      ["its own pod is not there", [onNode], wanted, "pod"],
      ["its pod has another UID", [{ ...ztunnel, uid: "54321" }, onNode], wanted, "pod-uid"],
      ["its pod has another account", [{ ...ztunnel, account: "x" }], wanted, "pod-account"],
      ["its pod has failed", [{ ...ztunnel, phase: "Failed" }, onNode], wanted, "pod"],
      ["its pod is on no node yet", [{ ...ztunnel, node: "" }, onNode], wanted, "node"],
      ["its pod is elsewhere", [{ ...ztunnel, node: "other" }, onNode], wanted, "instance"],
      ["the target has ended", [ztunnel, { ...onNode, phase: "Succeeded" }], wanted, "instance"],
      ["the target is another's", [ztunnel, { ...onNode, account: "b" }], wanted, "instance"],
      ["the target is on no node yet", [ztunnel, { ...onNode, node: "" }], wanted, "instance"],
    ])("is denied when %s", async (_, pods, identity, rule) => {
      await put(primary, pods);
      expect(await refusalOf(() => ask({}, identity))).toEqual(denied(rule));
    });

    test.each<[string, Partial<Caller>, Rule]>([
      ["without a pod in its token", { pod: undefined }, "pod"],
      ["with a pod that is a path", { pod: { name: "../ztunnel-a", uid: "12345" } }, "pod"],
      ["with another pod's name", { pod: { name: "a-0", uid: "12345" } }, "pod"],
      ["with another pod's UID", { pod: { name: "ztunnel-a", uid: "1" } }, "pod-uid"],
      ["with an empty UID", { pod: { name: "ztunnel-a", uid: "" } }, "pod-uid"],
      ["with another node in its token", { node: { name: "other-node" } }, "node"],
      ["with a certificate instead of a token", { issuer: undefined }, "account"],
    ])("is denied %s", async (_, changes, rule) => {
      await put(primary, [ztunnel, onNode]);
      expect(await refusalOf(() => ask(changes))).toEqual(denied(rule));
    });

    test.each<[string, readonly FakePod[]]>([
      ["on its node", [ztunnel, onNode]],
      ["on its node and on another", [ztunnel, offNode, onNode]],
      ["on its node, and has yet to start", [ztunnel, { ...onNode, phase: "Pending" }]],
      ["on its node twice, once ended", [ztunnel, { ...offNode, ...ended }, onNode]],
    ])("gets the identity of a target that is %s", async (_, pods) => {
      await put(primary, pods);
      expect(await ask()).toBe(wanted);
    });
  });

  describe("a namesake of a target that is on the node", () => {
    const namesake = "spiffe://cluster.local/ns/ns-b/sa/sa-a";

    test("in another namespace is not there, however often the target was", async () => {
      await put(primary, [ztunnel, onNode]);
      expect(await ask()).toBe(wanted);
      expect(await refusalOf(() => ask({}, namesake))).toEqual(denied("instance"));
      const other = { ...onNode, namespace: "ns-b", uid: "9" };
      await put(primary, [other]);
      expect(await ask({}, namesake)).toBe(namesake);
      primary.remove(onNode);
      passApproval();
      await primary.settle();
      expect(await ask({}, namesake)).toBe(namesake);
      expect(await refusalOf(ask)).toEqual(denied("instance"));
    });

    test("of the proxy's pod on a node of its own gives the proxy none of that node", async () => {
      const elsewhere = { ...ztunnel, namespace: "b", uid: "777", node: "other-node" };
      await put(primary, [elsewhere, ztunnel, offNode]);
      expect(await refusalOf(ask)).toEqual(denied("instance"));
    });
  });

  test("a proxy whose pod is on no node yet gets what is on its node as soon as it has one", async () => {
    await put(primary, [{ ...ztunnel, node: "" }, onNode]);
    expect(await refusalOf(ask)).toEqual(denied("node"));
    await put(primary, [ztunnel]);
    expect(await ask()).toBe(wanted);
  });

  test("a proxy that has taken the name of another gets at once what is on its node", async () => {
    await put(primary, [ztunnel, onNode]);
    expect(await ask()).toBe(wanted);
    primary.remove(ztunnel);
    await put(primary, [{ ...ztunnel, uid: "54321" }]);
    expect(await ask({ pod: { name: "ztunnel-a", uid: "54321" } })).toBe(wanted);
  });

  describe("a node proxy of one cluster of two", () => {
    test("gets the identity of a pod in its cluster", async () => {
      await put(remote, [ztunnel, onNode]);
      expect(await policy(proxyOf(remoteIssuer()), wanted, now)).toBe(wanted);
      expect(await refusalOf(() => ask())).toEqual(denied("pod"));
    });

    test("is denied an identity whose pod is only in the other cluster", async () => {
      await put(primary, [ztunnel]);
      await put(remote, [ztunnel, onNode]);
      expect(await refusalOf(() => ask())).toEqual(denied("instance"));
    });
  });

  test("a target stays on its node until the last of its two pods there has gone", async () => {
    const second = { ...onNode, name: "a-2", uid: "2" };
    await put(primary, [ztunnel, onNode, second]);
    primary.remove(onNode);
    await primary.settle();
    expect(await ask()).toBe(wanted);
    passApproval();
    primary.remove(second);
    await primary.settle();
    expect(await refusalOf(ask)).toEqual(denied("instance"));
  });

  describe("a decision follows a change:", () => {
    beforeEach(async () => {
      await put(primary, [ztunnel, onNode]);
      await ask();
      passApproval();
    });

    test.each<[string, () => void, Rule]>([
      ["the proxy's pod is deleted", () => primary.remove(ztunnel), "pod"],
      ["the target is deleted", () => primary.remove(onNode), "instance"],
      ["the target has ended", () => primary.put({ ...onNode, phase: "Succeeded" }), "instance"],
    ])("%s", async (_, change, rule) => {
      change();
      await primary.settle();
      expect(await refusalOf(ask)).toEqual(denied(rule));
    });

    test("a target has come", async () => {
      const identity = "spiffe://cluster.local/ns/ns-a/sa/new";
      expect(await refusalOf(() => ask({}, identity))).toEqual(denied("instance"));
      await put(primary, [{ ...onNode, name: "new-0", uid: "3", account: "new" }]);
      expect(await ask({}, identity)).toBe(identity);
    });
  });
}

const ended = { node: "zt-node", phase: "Succeeded" } as const;
