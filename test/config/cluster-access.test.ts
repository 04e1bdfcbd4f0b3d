import { describe, expect, test } from "vitest";
import { type ClusterAccess, clientOf } from "../../src/config/cluster-access.ts";
import { ReloadPools } from "../../src/config/reload-pool.ts";
import {
  type CheckContext,
  type ClusterPlatform,
  nodeAuthorizer,
  reviewOf,
  tokenIssuers,
} from "../../src/config/token-issuers.ts";
import { ConfigurationError } from "../../src/foundation/errors.ts";
import type { Fetch } from "../../src/foundation/fetch.ts";
import type { ClusterApi } from "../../src/kubernetes/cluster-api.ts";
import type { BoundAccount, Pods, WatchPods } from "../../src/kubernetes/pods.ts";
import { sharePromises } from "../../src/node/limits/promise-sharing.ts";
import { configurationOf, issuer, issuersOf } from "../testkit/configuration.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { refusalOf } from "../testkit/refusal.ts";

const server = "https://10.0.0.1:6443";
const credential = "CLUSTER_CREDENTIAL_A";
const table = { server, credential, review: "after-keys", deliver_roots: false } as const;

/** Access to clusters, and every request that it has sent. */
function accessWith(changes: Partial<ClusterAccess> = {}) {
  const sent: { url: string; authorization: string | null; roots: string | undefined }[] = [];
  const fetching =
    (roots: string | undefined): Fetch =>
    async (url, { headers }) => {
      sent.push({ url, authorization: new Headers(headers).get("authorization"), roots });
      return Response.json({});
    };
  const access: ClusterAccess = {
    fetchTrusting: fetching,
    credentials: new Map([[credential, () => "secret"]]),
    ...changes,
  };
  return { access, sent };
}

test("a client asks the server of its table with the credential of that name, and trusts its CA alone", async () => {
  const { access, sent } = accessWith();
  await clientOf({ ...table, ca: "the CA" }, access).send({ path: "/api" });
  expect(sent).toEqual([{ url: `${server}/api`, authorization: "Bearer secret", roots: "the CA" }]);
});

test("a request gives up the turn of its call while it waits", async () => {
  let aside = 0;
  const { access } = accessWith({
    aside: (work) => {
      aside++;
      return work();
    },
  });
  await clientOf(table, access).send({ path: "/api" });
  expect(aside).toBe(1);
});

test("a credential is read for each request, because it may change", async () => {
  let credentials = 0;
  const { access, sent } = accessWith({
    credentials: new Map([[credential, () => `secret-${++credentials}`]]),
  });
  const client = clientOf(table, access);
  expect(credentials).toBe(0);
  await client.send({ path: "/a" });
  await client.send({ path: "/b" });
  expect(sent.map(({ authorization }) => authorization)).toEqual([
    "Bearer secret-1",
    "Bearer secret-2",
  ]);
});

test.each([
  ["without any credential", new Map()],
  ["with the credential of another cluster", new Map([["CLUSTER_CREDENTIAL_B", () => "x"]])],
])("no client is made %s, and no request is sent", (_, credentials) => {
  const { access, sent } = accessWith({ credentials });
  const missing = new ConfigurationError([`${credential}: is required`]);
  expect(() => clientOf(table, access)).toThrow(missing);
  expect(sent).toEqual([]);
});

test("a request is given up in the time of the platform's fetches", async () => {
  const { access } = accessWith({
    fetchTimeoutMilliseconds: 1,
    fetchTrusting:
      () =>
      (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener("abort", () => reject(signal.reason));
        }),
  });
  const sending = clientOf(table, access).send({ path: "/api" });
  // Timers of one process end in their order, however slow the machine is.
  const late = new Promise((_, reject) => {
    setTimeout(reject, 3000, new Error("late")).unref();
  });
  const first = Promise.race([sending, late]);
  await expect(first).rejects.toThrow("did not answer (TimeoutError)");
});

/** The issuers of a table with a cluster, on a platform with these parts. */
function issuerOf(table: object, values: object, parts: Partial<ClusterPlatform>) {
  const kubernetes = { server, credential };
  const configuration = configurationOf({
    ISSUERS: [{ issuer, kubernetes, ...table }],
    ...values,
  });
  const { access: fetching } = accessWith();
  const log = createEventRecorder();
  return tokenIssuers(configuration, { fetching, log, shareWork: sharePromises, ...parts });
}

test("pods are watched in clusters with node proxies alone, until a reload", () => {
  const watched: (readonly [string, AbortSignal | undefined])[] = [];
  const watchPods: WatchPods = ({ cluster }, lookup, ending) => {
    watched.push([cluster, ending]);
    return lookup;
  };
  const pools = ReloadPools.create();
  for (const accounts of [[], ["istio-system/ztunnel"]])
    issuerOf({ trusted_node_accounts: accounts }, { [credential]: "secret" }, { watchPods, pools });
  const seen = () => watched.map(([cluster, ending]) => [cluster, ending?.aborted]);
  expect(seen()).toEqual([["Kubernetes", false]]);
  pools.pods.rollback();
  expect(seen()).toEqual([["Kubernetes", true]]);
});

test("a cluster without its credential refuses the configuration", () => {
  const missing = new ConfigurationError([`${credential}: is required`]);
  expect(() => issuerOf({}, {}, {})).toThrow(missing);
});

const now = new Date("2026-11-22T12:00:00Z");
const kubernetes = { server: "https://10.0.0.1:6443", credential: "CLUSTER_CREDENTIAL_A" };
const ztunnel = "istio-system/ztunnel";
const wanted = { namespace: "shop", name: "cart" };

const proxy: BoundAccount = {
  account: { namespace: "istio-system", name: "ztunnel" },
  pod: { name: "ztunnel-abc", uid: "u1" },
  node: { name: "worker-1", uid: "n1" },
};

const tableOf = (table: object) => {
  const [parsed] = issuersOf({ issuer, trusted_node_accounts: [ztunnel], ...table });
  if (!parsed) throw new Error("no table");
  return parsed;
};

/** An API that counts how often it is opened, and finds nothing. */
function meansWith(changes: Partial<CheckContext> = {}) {
  const opened: ClusterApi[] = [];
  const means: CheckContext = {
    openApi: () => {
      const api: ClusterApi = { cluster: "west", send: async () => undefined };
      opened.push(api);
      return api;
    },
    watch: (lookup) => lookup,
    pools: ReloadPools.create(),
    ...changes,
  };
  return { means, opened };
}

const verdictOf = (table: object, means: CheckContext, caller = proxy) =>
  refusalOf(() => nodeAuthorizer(tableOf(table), means)(caller, wanted, now));

const denied = (rule: string) => ({ reason: "impersonation-denied", rule });

describe("without an API server, a node proxy", () => {
  const { means } = meansWith({ openApi: undefined });
  const reach = [{ nodes: ["worker-*"], namespaces: ["shop"] }];

  test.each([
    ["anywhere", "anywhere"],
    ["from its node for its namespace", reach],
  ])("may speak %s", async (_, node_reach) => {
    const authorize = nodeAuthorizer(tableOf({ node_reach }), means);
    await expect(authorize(proxy, wanted, now)).resolves.toBeUndefined();
  });

  test.each<[string, readonly object[], Partial<BoundAccount>, string]>([
    ["another node", [{ nodes: ["edge-*"], namespaces: ["shop"] }], {}, "reach"],
    ["another namespace", [{ nodes: ["*"], namespaces: ["db"] }], {}, "reach"],
    [
      "the node of one table and the namespace of another",
      [
        { nodes: ["worker-1"], namespaces: ["db"] },
        { nodes: ["edge-1"], namespaces: ["shop"] },
      ],
      {},
      "reach",
    ],
    ["no pod in its token", reach, { pod: undefined }, "pod"],
    ["no node in its token", reach, { node: undefined }, "node"],
    ["a node that nobody has seen", reach, { node: { name: "worker-1" } }, "node"],
  ])("is refused with %s", async (_, node_reach, changes, rule) => {
    expect(await verdictOf({ node_reach }, means, { ...proxy, ...changes })).toEqual(denied(rule));
  });

  test("of a table that says nothing of reach reaches nothing", async () => {
    const { node_reach: _, ...table } = tableOf({ node_reach: "anywhere" });
    const authorize = nodeAuthorizer(table, means);
    expect(await refusalOf(() => authorize(proxy, wanted, now))).toEqual(denied("reach"));
  });
});

describe("with an API server, a node proxy", () => {
  test("is refused for a pod that the server does not have", async () => {
    const { means, opened } = meansWith();
    expect(await verdictOf({ kubernetes }, means)).toEqual(denied("pod"));
    expect(opened).toHaveLength(1);
  });

  test("is judged by its claims alone where the table says so, and nobody asks the server", async () => {
    const { means, opened } = meansWith();
    const table = { kubernetes, node_checks: "claims", node_reach: "anywhere" };
    await expect(
      nodeAuthorizer(tableOf(table), means)(proxy, wanted, now),
    ).resolves.toBeUndefined();
    expect(opened).toEqual([]);
  });

  test("is looked up where the platform keeps the pods", async () => {
    const pods: Pods = {
      find: async () => ({ uid: "u1", account: "ztunnel", node: "worker-1" }),
      isOn: async () => false,
    };
    const { means } = meansWith({ watch: () => pods });
    expect(await verdictOf({ kubernetes }, means)).toEqual(denied("instance"));
  });

  test("keeps its pods while the table stays, and loses them with another server", () => {
    let made = 0;
    const { means } = meansWith({
      watch: (lookup) => {
        made++;
        return lookup;
      },
    });
    nodeAuthorizer(tableOf({ kubernetes }), means);
    nodeAuthorizer(tableOf({ kubernetes, namespaces: ["shop"] }), means);
    expect(made).toBe(1);
    nodeAuthorizer(tableOf({ kubernetes: { ...kubernetes, server: "https://b.test" } }), means);
    expect(made).toBe(2);
  });
});

describe("the review of an issuer's tokens", () => {
  test.each([
    ["without an API server in the table", {}, {}],
    ["without a way to reach it", { kubernetes }, { openApi: undefined }],
  ])("does not exist %s", (_, table, changes) => {
    const { means, opened } = meansWith(changes);
    expect(reviewOf(tableOf({ node_reach: "anywhere", ...table }), means)).toBeUndefined();
    expect(opened).toEqual([]);
  });

  test("has the order of the table, and bounds of its own for tokens that nobody has verified", () => {
    const { means, opened } = meansWith();
    const table = tableOf({ kubernetes: { ...kubernetes, review: "before-keys" } });
    expect(reviewOf(table, means)?.order).toBe("before-keys");
    expect(new Set(opened).size).toBe(2);
  });

  test("outlives a change of the table, unless another audience is asked for", () => {
    const { means } = meansWith();
    const first = reviewOf(tableOf({ kubernetes }), means)?.ask;
    expect(reviewOf(tableOf({ kubernetes, namespaces: ["shop"] }), means)?.ask).toBe(first);
    expect(reviewOf(tableOf({ kubernetes, audiences: ["other"] }), means)?.ask).not.toBe(first);
  });
});
