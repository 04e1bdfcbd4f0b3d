import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Caller } from "../../../src/authn/caller.ts";
import { createIdentityPolicy } from "../../../src/ca/issuance/identity-policy.ts";
import type { Refusal } from "../../../src/foundation/refusal.ts";
import { backoffSeconds } from "../../../src/kubernetes/cluster-api.ts";
import { Pods, podsKnownSeconds } from "../../../src/kubernetes/pods.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import {
  denied,
  describeNodeChecks,
  issuerOf,
  now,
  onNode,
  proxyOf,
  trustDomain,
  wanted,
  ztunnel,
} from "../../contract/node-checks.ts";
import {
  clusterApiAt,
  type FakeApiServer,
  podJson,
  startApiServer,
} from "../../testkit/kubernetes/api-server.ts";
import { refusalOf } from "../../testkit/refusal.ts";

function lookupOf(server: FakeApiServer, cluster: string): Pods {
  return Pods.create(clusterApiAt(server, cluster));
}

describe("by questions to the API server,", () => {
  describeNodeChecks(async (cluster) => {
    const server = await startApiServer();
    const remove = ({ namespace, name }: { namespace: string; name: string }): void => {
      const at = server.pods.findIndex((pod) => pod.namespace === namespace && pod.name === name);
      if (at >= 0) server.pods.splice(at, 1);
    };
    return {
      put: (pod) => {
        remove(pod);
        server.pods.push(pod);
      },
      remove,
      pods: lookupOf(server, cluster),
      settle: async () => {},
      close: server.close,
    };
  });
});

let primary: FakeApiServer;

beforeEach(async () => {
  primary = await startApiServer();
});

afterEach(async () => {
  await primary.close();
});

const policy = createIdentityPolicy(trustDomain);
const primaryProxy = () => proxyOf(issuerOf("primary", lookupOf(primary, "primary")));

describe("an identity is denied, whatever runs on the node,", () => {
  test.each<[string, string, Extract<Refusal, { reason: "impersonation-denied" }>["rule"]]>([
    ["of another trust domain", "spiffe://other.test/ns/ns-a/sa/sa-a", "trust-domain"],
    ["that is two, by a comma", `${wanted},spiffe://cluster.local/ns/b/sa/b`, "identity"],
    ["with a selector in it", "spiffe://cluster.local/ns/ns-a/sa/a&limit=1", "identity"],
  ])("%s", async (_, identity, rule) => {
    primary.pods.push(ztunnel, onNode);
    expect(await refusalOf(() => policy(primaryProxy(), identity, now))).toEqual(denied(rule));
    expect(primary.asked).toEqual([]);
  });
});

test("no proxy has an identity of a namespace for which its issuer may not vouch", async () => {
  primary.pods.push(ztunnel, onNode);
  const issuer = issuerOf("primary", lookupOf(primary, "primary"));
  const mayVouchFor = ({ namespace }: Caller["account"]) => namespace === "istio-system";
  const caller = proxyOf({ ...issuer, mayVouchFor });
  expect(await refusalOf(() => policy(caller, wanted, now))).toEqual(denied("namespace"));
  expect(primary.asked).toEqual([]);
});

test("no cluster is asked about another cluster's proxy, nor about an account that is no proxy", async () => {
  const remote = await startApiServer();
  remote.pods.push(ztunnel, onNode);
  primary.pods.push(ztunnel);
  const remoteIssuer = issuerOf("remote", lookupOf(remote, "remote"));
  const nobody = proxyOf({ ...remoteIssuer, isNodeAccount: () => false });
  expect(await refusalOf(() => policy(primaryProxy(), wanted, now))).toEqual(denied("instance"));
  expect(await refusalOf(() => policy(nobody, wanted, now))).toEqual(denied("account"));
  expect(remote.asked).toEqual([]);
  await remote.close();
});

describe("an answer of the API server", () => {
  test.each<[string, Partial<typeof onNode>]>([
    ["of another node", { node: "x" }],
    ["of another account", { account: "x" }],
    ["of another namespace", { namespace: "x" }],
    ["that has ended", { phase: "Succeeded" }],
  ])("with a pod %s does not count", async (_, changes) => {
    primary.instead = (request, response) => {
      const isList = request.url?.includes("fieldSelector");
      const items = [podJson({ ...onNode, ...changes })];
      response.end(JSON.stringify(isList ? { items } : podJson(ztunnel)));
    };
    expect(await refusalOf(() => policy(primaryProxy(), wanted, now))).toEqual(denied("instance"));
  });

  test.each<[string, unknown]>([
    ["another pod", podJson(onNode)],
    ["a pod of another namespace", podJson({ ...ztunnel, namespace: "x" })],
    ["a pod without a UID", { metadata: { name: "ztunnel-a" }, spec: {} }],
    ["a name without an end", podJson({ ...ztunnel, node: "n".repeat(254) })],
    ["a list", { items: [] }],
    ["nothing", null],
  ])("with %s for the proxy's pod is not believed", async (_, json) => {
    primary.instead = (_, response) => response.end(JSON.stringify(json));
    const refusal = await refusalOf(() => policy(primaryProxy(), wanted, now));
    expect(refusal).toEqual({ reason: "cluster-unreachable", cluster: "primary" });
  });

  test("with more pods than were asked for is not believed", async () => {
    primary.instead = (request, response) => {
      const isList = request.url?.includes("fieldSelector");
      const items = Array.from({ length: 65 }, () => podJson(onNode));
      response.end(JSON.stringify(isList ? { items } : podJson(ztunnel)));
    };
    const refusal = await refusalOf(() => policy(primaryProxy(), wanted, now));
    expect(refusal).toEqual({ reason: "cluster-unreachable", cluster: "primary" });
  });
});

describe("the answer about a pod", () => {
  test("is remembered for a while, and no longer", async () => {
    primary.pods.push(ztunnel, onNode);
    const proxy = primaryProxy();
    const at = (seconds: number) => policy(proxy, wanted, addSeconds(now, seconds));
    await at(0);
    await at(podsKnownSeconds - 1);
    expect(primary.asked).toHaveLength(2);
    primary.pods.splice(0);
    expect(await refusalOf(() => at(podsKnownSeconds))).toEqual(denied("pod"));
  });

  test("makes the proxy try again while the API server answers errors, and is asked again after a moment", async () => {
    primary.pods.push(ztunnel, onNode);
    const proxy = primaryProxy();
    primary.instead = (_, response) => response.writeHead(500).end();
    const refusal = await refusalOf(() => policy(proxy, wanted, now));
    expect(refusal).toEqual({ reason: "cluster-unreachable", cluster: "primary" });
    primary.instead = undefined;
    const later = addSeconds(now, backoffSeconds);
    expect(await policy(proxy, wanted, later)).toBe(wanted);
  });
});

test("a server without a collection of pods is not believed to be an API server", async () => {
  primary.instead = ({ url = "" }, response) =>
    url.includes("fieldSelector")
      ? response.writeHead(404).end()
      : response.end(JSON.stringify(podJson(ztunnel)));
  const refusal = await refusalOf(() => policy(primaryProxy(), wanted, now));
  expect(refusal).toEqual({ reason: "cluster-unreachable", cluster: "primary" });
});

/** A user who may create pods chooses their size: Kubernetes accepts a megabyte and a half. */
test("a large pod is accepted as any other pod is", async () => {
  primary.instead = ({ url = "" }, response) => {
    const pod = podJson(url.includes("ztunnel") ? ztunnel : onNode);
    const metadata = { ...pod.metadata, annotations: { a: "a".repeat(1_500_000) } };
    const each = { ...pod, metadata };
    response.end(JSON.stringify(url.includes("fieldSelector") ? { items: [each] } : each));
  };
  expect(await policy(primaryProxy(), wanted, now)).toBe(wanted);
});
