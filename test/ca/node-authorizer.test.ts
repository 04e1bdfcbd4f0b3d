import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Caller } from "../../src/authn/caller.ts";
import { createKubernetesApi, restSeconds } from "../../src/authn/kubernetes-api.ts";
import { nameAllowList, type TrustedIssuer } from "../../src/authn/trusted-issuer.ts";
import { createIdentityPolicy } from "../../src/ca/identity-policy.ts";
import {
  createClaimedReach,
  createPodLookup,
  podsKnownSeconds,
} from "../../src/ca/node-authorizer.ts";
import type { ImpersonationRule, Refusal } from "../../src/errors.ts";
import { parseTrustDomain, type TrustDomain, workloadSpiffeId } from "../../src/pki/spiffe-id.ts";
import { addSeconds } from "../../src/pki/validity.ts";
import {
  apiCredential,
  type FakeApiServer,
  type FakePod,
  startApiServer,
} from "../testkit/api-server.ts";
import { refusalOf } from "../testkit/refusal.ts";
import { trustedIssuerWithoutKeys } from "../testkit/trusted-issuers.ts";

const now = new Date("2026-11-21T12:00:00Z");
const trustDomain = parseTrustDomain("cluster.local") as TrustDomain;

const ztunnel: FakePod = {
  namespace: "istio-system",
  name: "ztunnel-a",
  uid: "12345",
  account: "ztunnel",
  node: "zt-node",
};
const onNode: FakePod = {
  namespace: "ns-a",
  name: "a-0",
  uid: "1",
  account: "sa-a",
  node: "zt-node",
};
const offNode: FakePod = { ...onNode, name: "a-1", node: "other-node" };
const wanted = "spiffe://cluster.local/ns/ns-a/sa/sa-a";

let primary: FakeApiServer;
let remote: FakeApiServer;

beforeEach(async () => {
  [primary, remote] = await Promise.all([startApiServer(), startApiServer()]);
});

afterEach(async () => {
  await Promise.all([primary.close(), remote.close()]);
});

const isZtunnel = ({ namespace, name }: Caller["account"]): boolean =>
  `${namespace}/${name}` === "istio-system/ztunnel";

function clusterOf(server: FakeApiServer, cluster: string): TrustedIssuer {
  const access = { cluster, server: server.origin, credential: apiCredential };
  const api = createKubernetesApi(access, fetch, () => {});
  return trustedIssuerWithoutKeys(`https://${cluster}.test`, {
    cluster,
    isNodeAccount: isZtunnel,
    requireNode: createPodLookup(cluster, api),
  });
}

function callerIn(cluster: string, changes: Partial<Caller> = {}): Caller {
  const account = { namespace: "istio-system", name: "ztunnel" };
  return {
    spiffeId: workloadSpiffeId(trustDomain, account),
    account,
    cluster,
    issuer: `https://${cluster}.test`,
    pod: { name: "ztunnel-a", uid: "12345" },
    ...changes,
  };
}

const policy = (...issuers: TrustedIssuer[]) => createIdentityPolicy(trustDomain, issuers);
const primaryPolicy = () => policy(clusterOf(primary, "primary"));

async function askedBy(caller: Caller, identity = wanted, at = now): Promise<string> {
  return await primaryPolicy()(caller, identity, at);
}

const denied = (rule: ImpersonationRule): Refusal => ({ reason: "impersonation-denied", rule });

describe("a node proxy of one cluster (istio facts §10.2)", () => {
  test("is denied where no account is trusted", async () => {
    primary.pods.push(ztunnel, onNode);
    const issuer = { ...clusterOf(primary, "primary"), isNodeAccount: () => false };
    const refusal = await refusalOf(() => policy(issuer)(callerIn("primary"), wanted, now));
    expect(refusal).toEqual(denied("account"));
    expect(primary.asked).toEqual([]);
  });

  test.each<[string, readonly FakePod[], string, ImpersonationRule]>([
    ["the target is nowhere", [ztunnel], wanted, "instance"],
    ["the target is only on another node", [ztunnel, offNode], wanted, "instance"],
    ["what it names is no SPIFFE ID", [ztunnel, onNode], "not-spiffe-idenditity", "identity"],
    ["its own pod is not there", [onNode], wanted, "pod"],
    ["its pod has another UID", [{ ...ztunnel, uid: "54321" }, onNode], wanted, "pod-uid"],
    ["its pod has another account", [{ ...ztunnel, account: "x" }, onNode], wanted, "pod-account"],
  ])("is denied when %s", async (_, pods, identity, rule) => {
    primary.pods.push(...pods);
    expect(await refusalOf(() => askedBy(callerIn("primary"), identity))).toEqual(denied(rule));
  });

  test.each<[string, readonly FakePod[]]>([
    ["on its node", [ztunnel, onNode]],
    ["on its node and on another", [ztunnel, offNode, onNode]],
    ["on its node, and has yet to start", [ztunnel, { ...onNode, phase: "Pending" }]],
  ])("gets the identity of a target that is %s", async (_, pods) => {
    primary.pods.push(...pods);
    expect(await askedBy(callerIn("primary"))).toBe(wanted);
  });
});

describe("a node proxy of one cluster of two (istio facts §10.2)", () => {
  const both = () => policy(clusterOf(primary, "primary"), clusterOf(remote, "remote"));

  test.each(["primary", "remote"])("gets what is in its cluster: %s", async (cluster) => {
    (cluster === "primary" ? primary : remote).pods.push(ztunnel, onNode);
    expect(await both()(callerIn(cluster), wanted, now)).toBe(wanted);
  });

  test("is denied what is only in the other", async () => {
    primary.pods.push(ztunnel);
    remote.pods.push(ztunnel, onNode);
    const refusal = await refusalOf(() => both()(callerIn("primary"), wanted, now));
    expect(refusal).toEqual(denied("instance"));
    expect(remote.asked).toEqual([]);
  });

  test("is denied everything once its cluster is removed", async () => {
    remote.pods.push(ztunnel, onNode);
    expect(await refusalOf(() => askedBy(callerIn("remote")))).toEqual(denied("account"));
  });
});

describe("an identity is denied, whatever runs on the node (istio facts §12.1),", () => {
  test.each<[string, string, ImpersonationRule]>([
    ["of another trust domain", "spiffe://other.test/ns/ns-a/sa/sa-a", "trust-domain"],
    ["of none", "spiffe:///ns/ns-a/sa/sa-a", "identity"],
    ["of a trust domain in upper case", "spiffe://CLUSTER.LOCAL/ns/ns-a/sa/sa-a", "identity"],
    ["that is two, by a comma", `${wanted},spiffe://cluster.local/ns/b/sa/b`, "identity"],
    ["with a comma in its account", "spiffe://cluster.local/ns/ns-a/sa/sa-a,b", "identity"],
    ["with a line break", `${wanted}\n`, "identity"],
    ["with a NUL", `${wanted}\u0000`, "identity"],
    ["with a query", `${wanted}?a`, "identity"],
    ["with a path that climbs", "spiffe://cluster.local/ns/../sa/sa-a", "identity"],
    ["that is percent-coded", "spiffe://cluster.local/ns/ns-a/sa/sa%2da", "identity"],
    ["with a part more", `${wanted}/x`, "identity"],
    ["with a selector in it", "spiffe://cluster.local/ns/ns-a/sa/a&limit=1", "identity"],
  ])("%s", async (_, identity, rule) => {
    primary.pods.push(ztunnel, onNode);
    expect(await refusalOf(() => askedBy(callerIn("primary"), identity))).toEqual(denied(rule));
    expect(primary.asked).toEqual([]);
  });
});

describe("a node proxy is denied", () => {
  test.each<[string, Partial<Caller>, ImpersonationRule]>([
    ["without a pod in its token", { pod: undefined }, "pod"],
    ["with a pod that is a path", { pod: { name: "../ztunnel-a", uid: "12345" } }, "pod"],
    ["with a pod that is two dots", { pod: { name: "..", uid: "12345" } }, "pod"],
    ["with a pod that is a query", { pod: { name: "a?b", uid: "12345" } }, "pod"],
    ["with another node in its token", { node: { name: "other-node" } }, "node"],
    ["with a certificate instead of a token", { issuer: undefined }, "account"],
  ])("%s", async (_, changes, rule) => {
    primary.pods.push(ztunnel, onNode);
    expect(await refusalOf(() => askedBy(callerIn("primary", changes)))).toEqual(denied(rule));
  });

  test.each<[string, readonly FakePod[], ImpersonationRule]>([
    ["its pod has failed", [{ ...ztunnel, phase: "Failed" }, onNode], "pod"],
    ["its pod is on no node yet", [{ ...ztunnel, node: "" }, onNode], "node"],
    ["the target's pod has failed", [ztunnel, { ...onNode, phase: "Failed" }], "instance"],
    ["the target's pod has ended", [ztunnel, { ...onNode, phase: "Succeeded" }], "instance"],
    ["the target is in another namespace", [ztunnel, { ...onNode, namespace: "b" }], "instance"],
  ])("when %s", async (_, pods, rule) => {
    primary.pods.push(...pods);
    expect(await refusalOf(() => askedBy(callerIn("primary")))).toEqual(denied(rule));
  });

  test("when the API server answers a list that was not asked for", async () => {
    primary.pods.push(ztunnel);
    const stranger = {
      metadata: { uid: "1" },
      spec: { serviceAccountName: "sa-a", nodeName: "x" },
    };
    primary.instead = (request, response) => {
      const isList = request.url?.includes("fieldSelector");
      const pod = {
        metadata: { uid: "12345" },
        spec: { serviceAccountName: "ztunnel", nodeName: "n" },
      };
      response.end(JSON.stringify(isList ? { items: [stranger] } : pod));
    };
    expect(await refusalOf(() => askedBy(callerIn("primary")))).toEqual(denied("instance"));
  });
});

describe("what a cluster says of its pods", () => {
  test("is remembered for a while, and no longer", async () => {
    primary.pods.push(ztunnel, onNode);
    const decide = primaryPolicy();
    const at = (seconds: number) => decide(callerIn("primary"), wanted, addSeconds(now, seconds));
    await at(0);
    await at(podsKnownSeconds - 1);
    expect(primary.asked).toHaveLength(2);
    primary.pods.splice(0);
    expect(await refusalOf(() => at(podsKnownSeconds))).toEqual(denied("pod"));
  });

  test("is not remembered when it is no: the pod may be there the next moment", async () => {
    primary.pods.push(ztunnel);
    const decide = primaryPolicy();
    expect(await refusalOf(() => decide(callerIn("primary"), wanted, now))).toEqual(
      denied("instance"),
    );
    primary.pods.push(onNode);
    expect(await decide(callerIn("primary"), wanted, now)).toBe(wanted);
  });

  test("is remembered of this very pod", async () => {
    primary.pods.push(ztunnel, onNode);
    const decide = primaryPolicy();
    await decide(callerIn("primary"), wanted, now);
    const impostor = callerIn("primary", { pod: { name: "ztunnel-a", uid: "54321" } });
    expect(await refusalOf(() => decide(impostor, wanted, now))).toEqual(denied("pod-uid"));
  });

  test.each<[string, () => void]>([
    ["away", () => void primary.close()],
    ["answering errors", () => (primary.instead = (_, response) => response.writeHead(500).end())],
    ["answering something else", () => (primary.instead = (_, response) => response.end("[]"))],
  ])("cannot be known while the API server is %s: try again", async (_, breakIt) => {
    primary.pods.push(ztunnel, onNode);
    breakIt();
    const refusal = await refusalOf(() => askedBy(callerIn("primary")));
    expect(refusal).toEqual({ reason: "cluster-unreachable", cluster: "primary" });
  });

  test("is asked again after a moment", async () => {
    primary.pods.push(ztunnel, onNode);
    const decide = primaryPolicy();
    primary.instead = (_, response) => response.writeHead(500).end();
    await refusalOf(() => decide(callerIn("primary"), wanted, now));
    primary.instead = undefined;
    const later = addSeconds(now, restSeconds);
    expect(await decide(callerIn("primary"), wanted, later)).toBe(wanted);
  });
});

describe("without access to the cluster, a node proxy", () => {
  const reach = createClaimedReach([
    { isNode: nameAllowList(["gpu-*"]), isNamespace: nameAllowList(["ml"]) },
    { isNode: nameAllowList(["edge-1"]), isNamespace: nameAllowList(["ns-*"]) },
  ]);
  const issuer = trustedIssuerWithoutKeys("https://primary.test", {
    isNodeAccount: isZtunnel,
    requireNode: reach,
  });
  const on = (name: string): Partial<Caller> => ({ node: { name, uid: "7" } });
  const ask = async (changes: Partial<Caller>, identity = wanted) =>
    policy(issuer)(callerIn("primary", changes), identity, now);

  test("gets what its node may have", async () => {
    expect(await ask(on("edge-1"))).toBe(wanted);
  });

  test.each<[string, Partial<Caller>, ImpersonationRule]>([
    ["of another node", on("edge-2"), "reach"],
    ["of a node with another reach", on("gpu-1"), "reach"],
    ["of no node", { node: undefined }, "node"],
    ["of a node that nobody has seen", { node: { name: "edge-1" } }, "node"],
    ["of no pod", { ...on("edge-1"), pod: undefined }, "pod"],
  ])("is denied it %s", async (_, changes, rule) => {
    expect(await refusalOf(() => ask(changes))).toEqual(denied(rule));
  });
});
