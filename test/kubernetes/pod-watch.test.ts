import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FetchError } from "../../src/foundation/fetch.ts";
import { KubernetesClient } from "../../src/kubernetes/client.ts";
import { ClusterApi, type ReachableCluster } from "../../src/kubernetes/cluster-api.ts";
import { createPodWatch, podsTrustedSeconds } from "../../src/kubernetes/pod-watch.ts";
import { Pods } from "../../src/kubernetes/pods.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { describeNodeChecks, now, onNode, ztunnel } from "../contract/node-checks.ts";
import { type FakePod, podJson } from "../testkit/kubernetes/api-server.ts";
import {
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../testkit/kubernetes/watched-api.ts";
import { refusalOf } from "../testkit/refusal.ts";
import { eventually } from "../testkit/time/eventually.ts";

/** A lookup that finds nothing, so that every positive answer comes from the watch. */
const emptyLookup: Pods = { find: async () => undefined, isOn: async () => false };

function reachableAt(api: WatchedApi, faults: FetchError[] = []): ReachableCluster {
  return {
    cluster: "primary",
    client: KubernetesClient.create({ server: api.origin, credential: () => watchedToken }, fetch),
    failed: (_, error) => void faults.push(error),
  };
}

let marks = 0;

/** Pods by a watch, and by lookups at the same API server unless the watch is alone. */
function watchedCluster(
  api: WatchedApi,
  clock: () => Date,
  signal: AbortSignal,
  { faults = [], isAlone = false }: { faults?: FetchError[]; isAlone?: boolean } = {},
) {
  const clusterApi = ClusterApi.create(reachableAt(api));
  // A new lookup remembers nothing.
  const newLookup = (): Pods => (isAlone ? emptyLookup : Pods.create(clusterApi));
  let lookup = newLookup();
  const pods = createPodWatch(clock, signal)(reachableAt(api, faults), {
    find: (...args) => lookup.find(...args),
    isOn: (...args) => lookup.isOn(...args),
  });
  /** Waits until the watch has seen every change so far. */
  async function settle(): Promise<void> {
    lookup = emptyLookup;
    const isKnown = async (mark: FakePod) =>
      expect(await pods.find("marks", mark, clock())).toBeDefined();
    // A list may hold the first mark; the second comes by the watch.
    for (const name of [`mark-${marks++}`, `mark-${marks++}`]) {
      const mark = { ...onNode, namespace: "marks", name, account: "mark" };
      await eventually(() => expect(api.watching()).toBe(1));
      api.put(podJson(mark));
      api.bookmark();
      await eventually(() => isKnown(mark));
    }
    lookup = newLookup();
  }
  return { pods, settle };
}

describe("by a watch,", () => {
  describeNodeChecks(async (_, clock) => {
    const api = await startWatchedApi();
    const ending = new AbortController();
    return {
      ...watchedCluster(api, clock, ending.signal),
      put: (pod) => api.put(podJson(pod)),
      remove: ({ name, namespace }) => api.remove("Pod", name, namespace),
      close: async () => {
        ending.abort();
        await api.close();
      },
    };
  });
});

describe("pods that are watched", () => {
  let api: WatchedApi;
  let ending: AbortController;
  let faults: FetchError[];
  let instant: Date;
  let pods: Pods;
  let settle: () => Promise<void>;
  const clock = (): Date => instant;

  beforeEach(async () => {
    api = await startWatchedApi();
    ending = new AbortController();
    faults = [];
    instant = now;
  });

  afterEach(async () => {
    ending.abort();
    await api.close();
  });

  function start(isAlone?: "alone"): void {
    const options = { faults, isAlone: isAlone === "alone" };
    ({ pods, settle } = watchedCluster(api, clock, ending.signal, options));
  }

  const put = (...all: readonly FakePod[]): void => {
    for (const pod of all) api.put(podJson(pod));
  };
  const hasProxy = async (): Promise<boolean> =>
    (await pods.find("istio-system", ztunnel, instant)) !== undefined;
  const hasTarget = () =>
    pods.isOn("zt-node", { namespace: onNode.namespace, name: onNode.account }, instant);
  const lookups = (): string[] => api.asked.filter((each) => each.includes("/namespaces/"));
  const lists = (): string[] => api.asked.filter((each) => each === "GET /api/v1/pods");

  test("cost no request once all have been seen", async () => {
    put(ztunnel, onNode);
    start("alone");
    await eventually(async () => expect(await hasProxy()).toBe(true));
    expect(await hasTarget()).toBe(true);
    expect(lookups()).toEqual([]);
  });

  test("are looked up where the watch does not know them, because they may be new", async () => {
    put(ztunnel);
    const lookup = { ...emptyLookup, isOn: async () => true };
    pods = createPodWatch(clock, ending.signal)(reachableAt(api), lookup);
    await eventually(async () => expect(await hasProxy()).toBe(true));
    expect(await hasTarget()).toBe(true);
  });

  test("keep an account on its node until the last of its pods there has gone", async () => {
    const second = { ...onNode, name: "a-9", uid: "9" };
    put(ztunnel, onNode, second);
    start("alone");
    await eventually(async () => expect(await hasTarget()).toBe(true));
    api.remove("Pod", onNode.name, onNode.namespace);
    await settle();
    expect(await hasTarget()).toBe(true);
    api.remove("Pod", second.name, second.namespace);
    await eventually(async () => expect(await hasTarget()).toBe(false));
  });

  test("are listed in pages, without those that have ended", async () => {
    const many = [1, 2, 3, 4, 5].map((i) => ({ ...onNode, name: `a-${i}`, account: `a-${i}` }));
    put(...many, { ...onNode, name: "b", phase: "Succeeded" });
    const urls: string[] = [];
    api.instead = ({ url = "" }) => {
      urls.push(url);
      return false;
    };
    start("alone");
    const account = { namespace: onNode.namespace, name: "a-5" };
    await eventually(async () => expect(await pods.isOn("zt-node", account, instant)).toBe(true));
    const [first, ...others] = urls.map((url) => new URL(url, api.origin).searchParams);
    expect(first?.get("fieldSelector")).toBe("status.phase!=Failed,status.phase!=Succeeded");
    expect(first?.get("limit")).toBe("50");
    expect(others.filter((query) => query.has("continue"))).toHaveLength(2);
  });

  test.each<[string, () => void]>([
    ["not seen yet", () => hold()],
    ["not allowed to be watched", () => forbid()],
    ["not in a form that can be read", () => garble("{}")],
    ["not JSON", () => garble("<html>")],
    ["longer than an object can be", () => garble(" ".repeat(11_000_000))],
  ])("are looked up while they are %s", async (_, prepare) => {
    prepare();
    start();
    put(ztunnel, onNode);
    expect([await hasProxy(), await hasTarget()]).toEqual([true, true]);
    expect(lookups()).toHaveLength(2);
  });

  /** Lookups read no collection of all pods: only the list and the watch do. */
  const onlyLookups = (answer: (response: ServerResponse) => void): void => {
    api.instead = ({ url = "" }, response) => {
      if (!url.startsWith("/api/v1/pods")) return false;
      answer(response);
      return true;
    };
  };
  const hold = (): void => onlyLookups(() => {});
  const forbid = (): void => onlyLookups((response) => void response.writeHead(403).end());
  const garble = (text: string): void => onlyLookups((response) => void response.end(text));

  test("that can be neither watched nor looked up are not guessed", async () => {
    api.instead = (_, response) => Boolean(response.writeHead(500).end());
    start();
    const unreachable = { reason: "cluster-unreachable", cluster: "primary" };
    expect(await refusalOf(hasProxy)).toEqual(unreachable);
    expect(await refusalOf(hasTarget)).toEqual(unreachable);
  });

  describe("when the API server falls silent,", () => {
    beforeEach(async () => {
      put(ztunnel, onNode);
      start();
      await settle();
      expect([await hasProxy(), await hasTarget()]).toEqual([true, true]);
      expect(lookups()).toEqual([]);
      api.instead = () => true;
      api.cut();
    });

    test.each([podsTrustedSeconds, 3600])(
      "stay known for a moment, and are looked up, and not guessed, when it is %i seconds later",
      async (seconds) => {
        instant = addSeconds(now, podsTrustedSeconds - 1);
        expect([await hasProxy(), await hasTarget()]).toEqual([true, true]);
        api.instead = (_, response) => Boolean(response.writeHead(503).end());
        instant = addSeconds(now, seconds);
        const unreachable = { reason: "cluster-unreachable", cluster: "primary" };
        expect(await refusalOf(hasProxy)).toEqual(unreachable);
      },
    );

    test("are known again once it answers", async () => {
      instant = addSeconds(now, 3600);
      api.instead = undefined;
      api.remove("Pod", onNode.name, onNode.namespace);
      api.cut();
      await eventually(() => expect(api.watching()).toBe(1));
      api.bookmark();
      const before = lookups().length;
      await eventually(async () => expect(await hasProxy()).toBe(true));
      expect(await hasTarget()).toBe(false);
      expect(lookups().length).toBeGreaterThan(before);
    });
  });

  test("are not known once the clock is set back", async () => {
    put(ztunnel, onNode);
    start("alone");
    await settle();
    expect(await hasTarget()).toBe(true);
    api.instead = () => true;
    instant = addSeconds(now, -podsTrustedSeconds);
    expect([await hasProxy(), await hasTarget()]).toEqual([false, false]);
  });

  test("are watched from where a connection broke, without another list", async () => {
    put(ztunnel);
    start("alone");
    await eventually(() => expect(api.watching()).toBe(1));
    const before = lists().length;
    api.cut();
    put(onNode);
    await eventually(async () => expect(await hasTarget()).toBe(true));
    expect(lists()).toHaveLength(before);
    expect(faults.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^does not let Rampart watch its pods: it (did not answer|broke off)/),
    ]);
  });

  test("are listed again once the API server has forgotten the version", async () => {
    put(ztunnel, onNode);
    start("alone");
    await eventually(async () => expect(await hasTarget()).toBe(true));
    const before = lists().length;
    api.instead = () => true;
    api.cut();
    api.remove("Pod", onNode.name, onNode.namespace);
    put({ ...onNode, name: "late", account: "late" });
    api.instead = undefined;
    api.forget();
    const late = { namespace: onNode.namespace, name: "late" };
    await eventually(async () => expect(await pods.isOn("zt-node", late, instant)).toBe(true));
    expect(await hasTarget()).toBe(false);
    expect(lists().length).toBeGreaterThan(before);
  });

  test("that may not be watched are reported with the request, and without the credential", async () => {
    forbid();
    start();
    await eventually(() => expect(faults).toHaveLength(1));
    expect(faults[0]?.message).toBe(
      "does not let Rampart watch its pods: it refuses the credential for GET /api/v1/pods (status 403)",
    );
    expect(JSON.stringify(faults)).not.toContain(watchedToken);
  });
});
