import type { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pushTargets } from "../../src/config/cluster-access.ts";
import { ClusterPush } from "../../src/delivery/cluster-push.ts";
import { outcomesByCluster } from "../../src/delivery/outcomes-by-cluster.ts";
import { PushContent } from "../../src/delivery/push-content.ts";
import type { PushLimits } from "../../src/delivery/push-to-cluster.ts";
import { rootConfigMap } from "../../src/delivery/root-config-map.ts";
import { NodeFetch } from "../../src/program/http/http-client.ts";
import { type RunningCa, startCa } from "../testkit/ca/running-ca.ts";
import { configurationOf } from "../testkit/configuration.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../testkit/kubernetes/watched-api.ts";
import { createEventRecorder, type EventRecorder } from "../testkit/log/event-recorder.ts";
import { eventually } from "../testkit/time/eventually.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";
import { createVirtualTime, type VirtualTime } from "../testkit/time/virtual-time.ts";

const credential = "CLUSTER_CREDENTIAL_A";
const limits: PushLimits = { requests: 1000, seconds: 60, clustersAtOnce: 2, writesAtOnce: 2 };

/** Its clock stands still: with the instant of a run changes who comes first in it. */
const founded = await startCa();
await founded.found();

let ca: RunningCa;
let api: WatchedApi;
let other: WatchedApi;
let log: EventRecorder;
let time: VirtualTime;

beforeEach(async () => {
  [api, other] = await Promise.all([startWatchedApi(), startWatchedApi()]);
  ca = founded;
  log = createEventRecorder();
  time = createVirtualTime(new Date());
  for (const each of [api, other]) {
    for (const name of ["default", "kube-system", "shop"]) each.put(namespaceOf(name));
  }
});

afterEach(() => Promise.all([api.close(), other.close()]));

const table = (server: string, cluster: string, changes: object = {}): object => ({
  issuer: `https://${cluster}.test`,
  cluster,
  kubernetes: { server, credential, deliver_roots: true, ...changes },
});

function pushTo(
  tables: readonly object[] = [table(api.origin, "a")],
  changes: Partial<PushLimits> = {},
  fetch = NodeFetch.trusting,
): ClusterPush {
  const configuration = configurationOf({ ISSUERS: tables, [credential]: watchedToken });
  const { authorities } = ca.certificateAuthority.issuance;
  const targets = pushTargets("deliver_roots", configuration, {
    fetchTrusting: fetch,
    fetchTimeoutMilliseconds: hangMilliseconds,
  });
  const { timeout } = time;
  const content = PushContent.trustBundle(authorities);
  return new ClusterPush({ targets, content, limits: { ...limits, ...changes }, log, timeout });
}

const both = (): object[] => [table(api.origin, "a"), table(other.origin, "b")];
const toBoth = (changes: Partial<PushLimits> = {}): ClusterPush => pushTo(both(), changes);

const pem = async (): Promise<string> => (await ca.app.request("/bundle.pem")).text();
const has = async (server: WatchedApi, namespace: string): Promise<boolean> =>
  Object(server.configMapIn(namespace)?.data)["root-cert.pem"] === (await pem());
const deliveredIn = async (server: WatchedApi, names = ["default", "kube-system", "shop"]) =>
  (await Promise.all(names.map((name) => has(server, name)))).filter(Boolean).length;
const writes = (server: WatchedApi): string[] =>
  server.asked.filter((each) => !each.startsWith("GET"));
const lines = (event: string) => log.operations.filter((each) => each.event === event);

describe("the CA delivers its roots", () => {
  test("to every namespace that Istio would fill, with sequence and time as annotations", async () => {
    for (const name of ["kube-public", "kube-node-lease", "local-path-storage"]) {
      api.put(namespaceOf(name));
    }
    api.put(namespaceOf("leaving", "Terminating"));
    const deleted = namespaceOf("deleted");
    const metadata = { ...deleted.metadata, deletionTimestamp: "2026-11-21T12:00:00Z" };
    api.put({ ...deleted, metadata });
    await pushTo().deliver(ca.now());
    const { spiffe_sequence } = await (await ca.app.request("/bundle.json")).json();
    expect(api.configMapIn("shop")).toMatchObject({
      metadata: {
        labels: { "istio.io/config": "true" },
        annotations: {
          "rampart.dev/spiffe-sequence": `${spiffe_sequence}`,
          "rampart.dev/delivered-at": ca.now().toISOString(),
        },
        managedFields: [{ manager: "rampart-ca" }],
      },
    });
    expect(writes(api).toSorted()).toEqual(
      ["default", "kube-system", "shop"].map(
        (name) => `PATCH /api/v1/namespaces/${name}/configmaps/istio-ca-root-cert`,
      ),
    );
    expect(await deliveredIn(api)).toBe(3);
  });

  test("once: where nothing has changed, it writes and logs nothing", async () => {
    const push = pushTo();
    await push.deliver(ca.now());
    api.asked.length = 0;
    await push.deliver(ca.now());
    expect(writes(api)).toEqual([]);
    expect(lines("roots-delivered")).toMatchObject([{ cluster: "a", namespaces: 3, written: 3 }]);
  });

  test("once to an API server that two issuers name", async () => {
    await pushTo([table(api.origin, "a"), table(`${api.origin}/`, "b")]).deliver(ca.now());
    expect(writes(api)).toHaveLength(3);
  });

  test("under another name, where the mesh has one", async () => {
    await pushTo([table(api.origin, "a", { config_map: "mesh-roots" })]).deliver(ca.now());
    expect(writes(api)).toContain("PATCH /api/v1/namespaces/shop/configmaps/mesh-roots");
  });

  test("with the roots of its named signers", async () => {
    const callers = [{ issuer: "https://a.test" }];
    ca = await startCa({ SIGNERS: [{ name: "db", callers, inception_date: "2026-11-21" }] });
    await ca.rotate();
    await pushTo().deliver(ca.now());
    expect((await pem()).match(/BEGIN CERTIFICATE/g)).toHaveLength(2);
    expect(await deliveredIn(api)).toBe(3);
  });

  test("to no cluster that did not ask for them", async () => {
    await pushTo([table(api.origin, "a", { deliver_roots: false })]).deliver(ca.now());
    expect(api.asked).toEqual([]);
  });

  type Held = NonNullable<ReturnType<WatchedApi["configMapIn"]>>;

  test.each<[string, (held: Held) => Held | undefined]>([
    ["changed", (held) => ({ ...held, data: { "root-cert.pem": "mine" } })],
    ["deleted", () => undefined],
  ])("again where somebody has left it %s", async (_, drift) => {
    const push = pushTo();
    await push.deliver(ca.now());
    const held = api.configMapIn("shop");
    const drifted = held && drift(held);
    if (drifted) api.put(drifted);
    else api.remove("ConfigMap", "istio-ca-root-cert", "shop");
    await push.deliver(ca.now());
    expect(await has(api, "shop")).toBe(true);
    expect(writes(api)).toHaveLength(4);
  });

  test.each([undefined, { "rampart.dev/spiffe-sequence": "999999999999999" }])(
    "not again for annotations that differ: %j",
    async (annotations) => {
      const push = pushTo();
      await push.deliver(ca.now());
      const held = api.configMapIn("shop");
      if (held) api.put({ ...held, metadata: { ...held.metadata, annotations } });
      await push.deliver(ca.now());
      expect(writes(api)).toHaveLength(3);
    },
  );

  test("and knows since when a cluster has them, even after a restart", async () => {
    ca = await startCa();
    await ca.found();
    await pushTo().deliver(ca.now());
    const since = ca.now();
    ca.pass(60);
    const later = pushTo();
    await later.deliver(ca.now());
    expect([...later.outcomes()]).toMatchObject([{ cluster: "a", delivered: 3, since }]);
  });
});

type Instead = (request: IncomingMessage, response: ServerResponse) => boolean;

/** What is answered in place of a write whose path fits. */
const writing =
  (place: RegExp, instead: Instead = answers(403, "{}")): Instead =>
  (request, response) =>
    request.method === "PATCH" && place.test(request.url ?? "") && instead(request, response);

const answers =
  (status: number, text: string): Instead =>
  (_, response) =>
    Boolean(response.writeHead(status).end(text));
const noNamespace = JSON.stringify({ kind: "NamespaceList", metadata: {}, items: [] });

describe("a cluster delays no other", () => {
  const cutOff: Instead = (request) => Boolean(request.socket.destroy());
  const halfOpen: Instead = () => true;
  const drips: Instead = (_, response) => {
    response.writeHead(200);
    return response.write('{"kind":"NamespaceList",') || true;
  };

  test.each<[string, Instead, RegExp]>([
    ["that cuts every connection", cutOff, /did not answer/],
    ["that no longer knows the credential", answers(401, "{}"), /refuses the credential/],
    ["that lists no namespace", answers(200, noNamespace), /lists no namespace/],
  ])("%s", async (_, instead, reason) => {
    api.instead = instead;
    const push = toBoth();
    await push.deliver(ca.now());
    await expectOnlyOther(reason);
    api.instead = undefined;
    await push.deliver(ca.now());
    expect(await deliveredIn(api)).toBe(3);
  });

  test.each<[string, Instead, RegExp]>([
    ["that accepts and never answers", halfOpen, /did not answer/],
    ["that begins an answer and never ends it", drips, /broke off|did not answer/],
  ])("%s, until its share of the time is up", async (_, instead, reason) => {
    api.instead = instead;
    const run = toBoth().deliver(ca.now());
    await eventually(async () => expect(await deliveredIn(other)).toBe(3));
    await eventually(() => expect(api.asked).toHaveLength(1));
    time.pass(limits.seconds / 4);
    await run;
    await expectOnlyOther(reason);
  });

  async function expectOnlyOther(reason: RegExp): Promise<void> {
    expect(await deliveredIn(other)).toBe(3);
    expect(writes(api)).toEqual([]);
    const detail = expect.stringMatching(reason);
    expect(lines("roots-not-delivered")).toMatchObject([
      { cluster: "a", level: "warning", detail },
    ]);
  }

  test("that fails once has the bundle in the next run, and that is logged again", async () => {
    const push = toBoth();
    await push.deliver(ca.now());
    api.instead = answers(500, "{}");
    await push.deliver(ca.now());
    expect(lines("roots-not-delivered")).toMatchObject([{ cluster: "a" }]);
    api.instead = undefined;
    await push.deliver(ca.now());
    await push.deliver(ca.now());
    const delivered = lines("roots-delivered").map(({ cluster }) => cluster);
    expect(delivered.toSorted()).toEqual(["a", "a", "b"]);
  });

  test("that is away", async () => {
    await api.close();
    await toBoth().deliver(ca.now());
    expect(await deliveredIn(other)).toBe(3);
    expect(lines("roots-not-delivered")).toHaveLength(1);
    expect(JSON.stringify(log.operations)).not.toContain(watchedToken);
  });
});

describe("a namespace delays no other", () => {
  test.each<[string, Instead, RegExp]>([
    ["that forbids writes", answers(403, "{}"), /namespace shop .*status 403: .*a quota/],
    [
      "whose ConfigMap is immutable",
      answers(422, "{}"),
      /namespace shop .*status 422: .*is immutable/,
    ],
    ["that seems to be gone", answers(404, "{}"), /namespace shop .*no such namespace/],
    ["whose answer breaks off", answers(200, "{"), /namespace shop .*JSON/],
    [
      "in which something else is stored",
      answers(200, JSON.stringify({ metadata: { name: "istio-ca-root-cert", namespace: "shop" } })),
      /something else than what was applied/,
    ],
  ])("%s", async (_, instead, reason) => {
    api.instead = writing(/\/shop\//, instead);
    const push = pushTo();
    await push.deliver(ca.now());
    expect(await deliveredIn(api)).toBe(2);
    expect(lines("roots-not-delivered")).toMatchObject([
      { namespaces: 3, delivered: 2, written: 2, detail: expect.stringMatching(reason) },
    ]);
    expect([...push.outcomes()]).toMatchObject([{ since: undefined }]);
  });

  test("whose ConfigMap is as long as an API server takes them", async () => {
    const data = { "root-cert.pem": "\u0001".repeat(2 ** 20) };
    const metadata = { name: "istio-ca-root-cert", namespace: "shop" };
    api.put({ kind: "ConfigMap", metadata: { ...metadata, labels: {} }, data });
    await pushTo().deliver(ca.now());
    expect(await deliveredIn(api)).toBe(3);
    expect(lines("roots-delivered")).toMatchObject([{ namespaces: 3, written: 3 }]);
  });

  test("whose name is invalid: it goes into no path", async () => {
    for (const name of ["../../secrets/x", "shop?x=", "a/b", "\u001b[31m", "A", ""]) {
      api.put(namespaceOf(name));
    }
    await pushTo().deliver(ca.now());
    expect(writes(api)).toHaveLength(3);
    expect(lines("roots-delivered")).toMatchObject([{ namespaces: 3 }]);
  });

  test("where all refuse, and few are tried", async () => {
    for (let i = 0; i < 20; i++) api.put(namespaceOf(`n${i}`));
    api.instead = writing(/./);
    await pushTo().deliver(ca.now());
    expect(writes(api)).toHaveLength(6);
  });

  test.each([1, 2])("where many refuse, and others between them take it: %d", async (atOnce) => {
    // The API server lists them by their names.
    const names = ["a-bad", "b-good", "c-bad", "d-good", "e-bad", "f-good", "g-bad", "h-good"];
    for (const name of names) api.put(namespaceOf(name));
    api.instead = writing(/-bad\//);
    await pushTo(undefined, { writesAtOnce: atOnce }).deliver(ca.now());
    expect(await deliveredIn(api, names)).toBe(4);
    expect(lines("roots-not-delivered")).toMatchObject([{ delivered: 7, written: 7 }]);
  });

  test("where one refuses, and it says how many have another bundle and how many have none", async () => {
    for (const [namespace, pem] of [
      ["default", "another"],
      ["kube-system", ""],
    ] as const) {
      const held = rootConfigMap("istio-ca-root-cert", namespace, { pem, sequence: 1 }, ca.now());
      api.put(held as Parameters<WatchedApi["put"]>[0]);
    }
    api.instead = writing(/\/(?:default|kube-system)\//);
    const push = pushTo();
    await push.deliver(ca.now());
    expect([...push.outcomes()]).toMatchObject([
      { namespaces: 3, delivered: 1, written: 1, missing: 1 },
    ]);
    api.instead = undefined;
    await push.deliver(ca.now());
    expect([...push.outcomes()]).toMatchObject([{ delivered: 3, written: 2, missing: 0 }]);
  });
});

describe("a run is bounded", () => {
  test("in requests: it logs what is left, and the next run goes on from there", async () => {
    for (let i = 0; i < 10; i++) api.put(namespaceOf(`n${i}`));
    const names = Array.from({ length: 10 }, (_, i) => `n${i}`);
    // Thirteen namespaces take seven pages here; there is no ConfigMap at first, in one page.
    const push = pushTo(undefined, { requests: 18 });
    await push.deliver(ca.now());
    expect(api.asked).toHaveLength(18);
    expect(lines("roots-not-delivered")).toMatchObject([
      { namespaces: 13, written: 10, detail: expect.stringContaining("the next run continues") },
    ]);
    await push.deliver(ca.now());
    expect(await deliveredIn(api, names)).toBe(10);
    expect(api.asked).toHaveLength(18 + 7 + 5 + 3);
  });

  test("in requests: clusters that it did not reach come first in the next", async () => {
    const push = toBoth({ requests: 6, clustersAtOnce: 1 });
    await push.deliver(ca.now());
    const reached = [await deliveredIn(api), await deliveredIn(other)];
    expect(reached.toSorted()).toEqual([0, 3]);
    expect(lines("roots-not-reached")).toMatchObject([{ clusters: 1, level: "warning" }]);
    await push.deliver(ca.now());
    expect(await deliveredIn(api)).toBe(3);
    expect(await deliveredIn(other)).toBe(3);
  });

  test("in requests: the clock chooses the first cluster where nothing is remembered", async () => {
    for (let i = 0; i < 2; i++) {
      await toBoth({ requests: 6, clustersAtOnce: 1 }).deliver(new Date(ca.now().getTime() + i));
    }
    expect(await deliveredIn(api)).toBe(3);
    expect(await deliveredIn(other)).toBe(3);
  });

  test("by the platform, which refuses further fetches", async () => {
    let fetches = 0;
    const push = pushTo(both(), { clustersAtOnce: 1, writesAtOnce: 1 }, () => async (url, init) => {
      if (++fetches > 3) throw new Error("Too many subrequests by single Worker invocation.");
      return fetch(url, init);
    });
    await push.deliver(ca.now());
    expect(fetches).toBe(4);
    expect(lines("roots-not-reached")).toHaveLength(1);
  });

  test("in time: a cluster that uses up its share leaves time to the others", async () => {
    api.instead = () => true;
    const run = toBoth({ clustersAtOnce: 1 }).deliver(ca.now());
    await eventually(() => expect(api.asked).toHaveLength(1));
    expect(other.asked).toEqual([]);
    time.pass(limits.seconds / 4);
    await run;
    expect(await deliveredIn(other)).toBe(3);
    expect(lines("roots-not-delivered")).toMatchObject([{ cluster: "a" }]);
  });

  test("in time: clusters that it does not reach are logged", async () => {
    api.instead = () => true;
    const run = toBoth({ clustersAtOnce: 1 }).deliver(ca.now());
    await eventually(() => expect(api.asked).toHaveLength(1));
    time.pass(limits.seconds);
    await run;
    expect(other.asked).toEqual([]);
    expect(lines("roots-not-reached")).toMatchObject([{ clusters: 1, level: "warning" }]);
  });

  test("in what it logs: it names ten of the clusters that it does not reach", async () => {
    const far = Array.from({ length: 12 }, (_, i) => table(`http://127.0.0.1:${i + 1}`, `c${i}`));
    await pushTo(far, { requests: 0 }).deliver(ca.now());
    const detail = expect.stringMatching(/: (c\d+, ){9}c\d+$/);
    expect(lines("roots-not-reached")).toMatchObject([{ clusters: 12, detail }]);
  });

  test("by its signal, which ends the request under way, and then logs nothing", async () => {
    const ending = new AbortController();
    const [end, ends] = [new Error("the end"), [] as unknown[]];
    const fetch: typeof NodeFetch.trusting =
      () =>
      (_, { signal }) => {
        const answer = Promise.withResolvers<Response>();
        signal?.addEventListener("abort", () => answer.reject(ends.push(signal.reason)));
        ending.abort(end);
        return answer.promise;
      };
    await pushTo(both(), { clustersAtOnce: 1 }, fetch).deliver(ca.now(), ending.signal);
    expect(ends).toEqual([end]);
    expect(log.operations).toEqual([]);
  });
});

test("a defect ends a run with its error", async () => {
  const operation = () => {
    throw new Error("a defect");
  };
  log = { ...log, operation };
  await expect(pushTo().deliver(ca.now())).rejects.toThrow("a defect");
});

describe("no cluster gets a request", () => {
  test("while there is no root", async () => {
    ca = await startCa();
    await pushTo().deliver(ca.now());
    expect(api.asked).toEqual([]);
    expect(lines("roots-not-delivered")).toMatchObject([
      { level: "warning", detail: "there is no root to deliver" },
    ]);
  });

  test("while the store cannot be read", async () => {
    ca = await startCa();
    ca.store.load = () => Promise.reject(new Error("away"));
    await pushTo().deliver(ca.now());
    expect(api.asked).toEqual([]);
    expect(lines("roots-not-delivered")).toHaveLength(1);
  });
});

test("two API servers of one cluster are as far as the one that is behind, and fail with either", () => {
  const [early, late] = [new Date(1000), new Date(2000)];
  const outcome = { cluster: "a", sequence: 7, namespaces: 2, delivered: 2, written: 1 };
  const good = { ...outcome, missing: 0, since: late, fault: undefined };
  const behind = { ...good, sequence: 5, delivered: 1, missing: 1, since: early, fault: "away" };
  const other = { ...good, cluster: "b" };
  const sum = { cluster: "a", namespaces: 4, delivered: 3, written: 2, missing: 1 };
  for (const both of [
    [good, other, behind],
    [behind, good, other],
  ]) {
    const merged = outcomesByCluster(both);
    expect(merged).toHaveLength(2);
    expect(merged).toContainEqual(other);
    expect(merged).toContainEqual({ ...sum, sequence: 5, since: late, fault: "away" });
  }
  const neither = { ...behind, since: undefined };
  expect(outcomesByCluster([good, neither])).toMatchObject([{ since: undefined }]);
});
