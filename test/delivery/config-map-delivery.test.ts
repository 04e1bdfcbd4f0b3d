import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ConfigMapDelivery, type RootDelivery } from "../../src/delivery/config-map-delivery.ts";
import { KubernetesClient } from "../../src/kubernetes/client.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../testkit/kubernetes/watched-api.ts";
import { createEventRecorder, type EventRecorder } from "../testkit/log/event-recorder.ts";
import { eventually } from "../testkit/time/eventually.ts";

const start = new Date("2026-11-21T12:00:00Z");
const bundle = { pem: "the roots", sequence: 7 };

let api: WatchedApi;
let ending: AbortController;
let log: EventRecorder;
let delivery: RootDelivery;
let now: Date;

beforeEach(async () => {
  api = await startWatchedApi();
  ending = new AbortController();
  log = createEventRecorder();
  now = start;
  const access = { server: api.origin, credential: () => watchedToken };
  const client = KubernetesClient.create(access, fetch);
  delivery = new ConfigMapDelivery(client, "istio-ca-root-cert", log, ending.signal);
});

afterEach(async () => {
  ending.abort();
  await api.close();
});

const writes = (): string[] => api.asked.filter((each) => !each.startsWith("GET"));
const pemIn = (namespace: string): unknown =>
  Object(api.configMapIn(namespace)?.data)["root-cert.pem"];
const lines = (event: string) => log.operations.filter((each) => each.event === event);

/** Waits until the watches have seen that these namespaces, and no others, lack the bundle. */
const seen = (pending: readonly string[]): Promise<void> =>
  eventually(() => {
    const state = delivery.stateOf(bundle);
    expect([state.hasAll, state.pending]).toEqual([true, pending]);
  });

/** Delivers once a (virtual) minute until no namespace lacks the bundle. */
const delivered = (): Promise<void> =>
  eventually(async () => {
    now = addSeconds(now, 60);
    await delivery.deliver(bundle, now);
    expect(delivery.stateOf(bundle)).toMatchObject({ hasAll: true, pending: [] });
  });

type Held = NonNullable<ReturnType<WatchedApi["configMapIn"]>>;

function change(namespace: string, drift: (held: Held) => Held | undefined): void {
  const held = api.configMapIn(namespace);
  const drifted = held && drift(held);
  if (drifted) api.put(drifted);
  else api.remove("ConfigMap", "istio-ca-root-cert", namespace);
}

const takenOver = (held: Held): Held => ({ ...held, data: { "root-cert.pem": "mine" } });

describe("the bundle is applied", () => {
  beforeEach(async () => {
    for (const name of ["a", "b"]) api.put(namespaceOf(name));
    await delivered();
  });

  test("to every namespace, once", async () => {
    expect([pemIn("a"), pemIn("b")]).toEqual(["the roots", "the roots"]);
    expect(delivery.stateOf(bundle).delivered).toEqual(["a", "b"]);
    await delivery.deliver(bundle, addSeconds(now, 3600));
    expect(writes()).toHaveLength(2);
  });

  test("to many namespaces, eight at a time", async () => {
    for (let i = 0; i < 20; i++) api.put(namespaceOf(`n${i}`));
    await eventually(() => expect(delivery.stateOf(bundle).pending).toHaveLength(20));
    await delivery.deliver(bundle, now);
    expect(delivery.stateOf(bundle).pending).toEqual([]);
    api.asked.length = 0;
    api.instead = ({ method }) => method === "PATCH";
    const run = delivery.deliver({ ...bundle, pem: "other roots" }, now);
    await eventually(() => expect(writes()).toHaveLength(8));
    ending.abort();
    await run;
    expect(writes()).toHaveLength(8);
  });

  test("to a namespace that comes later, and to none that is being deleted", async () => {
    api.put(namespaceOf("leaving", "Terminating"));
    change("a", (held) => ({ ...held, metadata: { ...held.metadata, annotations: {} } }));
    api.put(namespaceOf("late"));
    // Annotations that differ count for nothing.
    await seen(["late"]);
    await delivered();
    expect(pemIn("late")).toBe("the roots");
  });

  test.each<[string, (held: Held) => Held | undefined]>([
    ["changed", takenOver],
    ["emptied", (held) => ({ ...held, data: null })],
    ["without its label", (held) => ({ ...held, metadata: { ...held.metadata, labels: {} } })],
    ["deleted", () => undefined],
  ])("again where somebody has left it %s", async (_, drift) => {
    change("a", drift);
    await seen(["a"]);
    await delivered();
    expect(pemIn("a")).toBe("the roots");
    expect(writes()).toHaveLength(3);
  });

  test("again at once where there is another bundle, however often", async () => {
    for (const pem of ["other roots", "more roots", "fewer roots"]) {
      await delivery.deliver({ pem, sequence: 8 }, now);
      expect([pemIn("a"), pemIn("b")]).toEqual([pem, pem]);
    }
  });

  test("even after the API server has forgotten the versions of the watches", async () => {
    api.put(namespaceOf("missed"));
    api.remove("Namespace", "missed");
    api.forget();
    api.put(namespaceOf("late"));
    await seen(["late"]);
  });

  test("even after the API server has cut every connection", async () => {
    api.cut();
    api.put(namespaceOf("late"));
    await seen(["late"]);
    expect(lines("watch-failed")[0]?.detail).toMatch(/^the API server /);
  });
});

test("it keeps a digest of what a namespace holds, in place of it", async () => {
  const access = { server: api.origin, credential: () => watchedToken };
  const digest = (pem: string): string => pem && `${pem.length} characters`;
  const client = KubernetesClient.create(access, fetch);
  const own = new ConfigMapDelivery(client, "istio-ca-root-cert", log, ending.signal, { digest });
  api.put(namespaceOf("a"));
  await eventually(() =>
    expect(own.stateOf(bundle)).toMatchObject({ hasAll: true, pending: ["a"] }),
  );
  await own.deliver(bundle, now);
  expect(own.stateOf(bundle).delivered).toEqual(["a"]);
  const ofSameDigest = { ...bundle, pem: "987654321" };
  expect(own.stateOf(ofSameDigest).delivered).toEqual(["a"]);
  expect([own.holdsOther("a", bundle), own.holdsOther("b", bundle)]).toEqual([false, false]);
  change("a", takenOver);
  await eventually(() => expect(own.holdsOther("a", bundle)).toBe(true));
  expect(own.stateOf(bundle).pending).toEqual(["a"]);
});

/** Answers writes whose path fits with 403. */
const refuse = (place = /./): void => {
  api.instead = ({ method, url = "" }, response) =>
    method === "PATCH" && place.test(url) && Boolean(response.writeHead(403).end());
};

describe("it applies nothing", () => {
  test("before it has seen all namespaces and ConfigMaps", async () => {
    api.put(namespaceOf("a"));
    api.instead = ({ url = "" }) => url.startsWith("/api/v1/configmaps");
    await eventually(() => expect(delivery.stateOf(bundle).pending).toEqual(["a"]));
    await delivery.deliver(bundle, now);
    expect(delivery.stateOf(bundle).hasAll).toBe(false);
    expect(writes()).toEqual([]);
  });

  test("more often than its pauses allow while attempts fail", async () => {
    api.put(namespaceOf("a"));
    await seen(["a"]);
    refuse();
    for (let i = 0; i < 600; i++) await delivery.deliver(bundle, addSeconds(start, i / 2));
    // At 0, 1, 3, 7, 15, 31 and 63 seconds, then every minute.
    expect(writes()).toHaveLength(7 + 3);
    expect(lines("root-not-delivered")).toHaveLength(10);
    expect(lines("root-not-delivered")[0]).toMatchObject({ namespace: "a", level: "warning" });
  });

  test("more often than its pauses allow while another writer conflicts", async () => {
    api.put(namespaceOf("a"));
    await seen(["a"]);
    await delivery.deliver(bundle, start);
    for (const [i, seconds] of [1, 3, 7, 15, 31, 63, 123].entries()) {
      change("a", takenOver);
      await seen(["a"]);
      await delivery.deliver(bundle, addSeconds(start, seconds - 0.5));
      expect(writes()).toHaveLength(i + 1);
      await delivery.deliver(bundle, addSeconds(start, seconds));
      expect(writes()).toHaveLength(i + 2);
    }
  });
});

test("the answer to a write hides no later write that the watch has seen", async () => {
  for (const name of ["a", "b"]) api.put(namespaceOf(name));
  await delivered();
  change("a", takenOver);
  await seen(["a"]);
  const [mine, others] = [api.configMapIn("a"), api.configMapIn("b")];
  api.instead = ({ method }, response) => {
    if (method !== "PATCH" || !mine || !others) return false;
    const applied = { ...mine, data: others.data };
    for (const each of [applied, mine, takenOver(others)]) api.put(each);
    // Events come in order: once the last has been seen, the others have.
    void seen(["a", "b"]).then(() => response.end(JSON.stringify(applied)));
    return true;
  };
  await delivery.deliver(bundle, addSeconds(now, 60));
  expect(delivery.stateOf(bundle).pending).toEqual(["a", "b"]);
});

test("after two quiet minutes the pauses begin with the shortest again", async () => {
  api.put(namespaceOf("a"));
  for (const seconds of [0, 1, 3, 200, 201]) {
    await seen(["a"]);
    await delivery.deliver(bundle, addSeconds(start, seconds));
    change("a", takenOver);
  }
  expect(writes()).toHaveLength(5);
});

test("a clock that is set back prolongs no pause", async () => {
  api.put(namespaceOf("a"));
  await seen(["a"]);
  refuse();
  for (const seconds of [0, 1, 2, -3600, -3599.5])
    await delivery.deliver(bundle, addSeconds(start, seconds));
  expect(writes()).toHaveLength(3);
});

test("a namespace that refuses the bundle delays no other", async () => {
  for (const name of ["sealed", "shop"]) api.put(namespaceOf(name));
  await seen(["sealed", "shop"]);
  refuse(/\/sealed\//);
  await delivery.deliver(bundle, start);
  expect(delivery.stateOf(bundle)).toMatchObject({ delivered: ["shop"], pending: ["sealed"] });
  expect(lines("root-not-delivered")).toMatchObject([
    {
      namespace: "sealed",
      detail: expect.stringMatching(
        /^the API server answered PATCH .* 403: the account lacks the right, or a quota/,
      ),
    },
  ]);
});

test("an attempt that its signal ends is not logged", async () => {
  api.put(namespaceOf("a"));
  await seen(["a"]);
  api.instead = () => {
    ending.abort();
    return true;
  };
  await delivery.deliver(bundle, start);
  expect(log.operations).toEqual([]);
});
