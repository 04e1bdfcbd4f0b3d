import { afterEach, expect, test } from "vitest";
import type { FetchError } from "../../src/foundation/fetch.ts";
import { KubernetesClient, type KubernetesRequest } from "../../src/kubernetes/client.ts";
import { createPodWatch } from "../../src/kubernetes/pod-watch.ts";
import type { Pods } from "../../src/kubernetes/pods.ts";
import { now } from "../contract/node-checks.ts";
import { eventually } from "../testkit/time/eventually.ts";

let ending = new AbortController();
afterEach(() => {
  ending.abort();
  ending = new AbortController();
});

const longest = (i: number, length: number): string => `${i}${"a".repeat(length)}`.slice(0, length);

function podOf(i: number, name = longest(i, 253)): object {
  return {
    metadata: { namespace: "b".repeat(63), name, uid: `${i}` },
    spec: { serviceAccountName: longest(i, 253), nodeName: longest(i, 253) },
  };
}

const unknown: Pods = { find: async () => undefined, isOn: async () => false };

/** Watches pods of which a server lists as many pages, a thousand on each. */
function watching(pages: number, nameOf?: (i: number) => string) {
  const failures: FetchError[] = [];
  const send = async ({ path }: KubernetesRequest): Promise<unknown> => {
    const page = Number(/continue=(\d+)/.exec(path)?.[1] ?? 0);
    const items = Array.from({ length: 1000 }, (_, i) => podOf(1000 * page + i, nameOf?.(i)));
    const next = page + 1 < pages ? `${page + 1}` : "";
    return { kind: "PodList", metadata: { resourceVersion: "1", continue: next }, items };
  };
  const silent = () => new Promise<never>(() => {});
  const client: KubernetesClient = { send, open: silent };
  const failed = (_: string, error: FetchError): void => void failures.push(error);
  const pods = createPodWatch(() => now, ending.signal)({ cluster: "a", client, failed }, unknown);
  const find = (i: number) => {
    const bound = { name: nameOf?.(i) ?? longest(i, 253), uid: `${i}` };
    return pods.find("b".repeat(63), bound, now);
  };
  return { find, failures };
}

test("pods count by the octets of their names, and none is kept of too many", async () => {
  const few = watching(5);
  await eventually(async () => expect(await few.find(4999)).toBeDefined());
  const many = watching(7);
  await eventually(() => expect(many.failures).toHaveLength(1));
  expect(many.failures[0]?.message).toContain("has more than 50000 objects, or 8388608 octets,");
  expect(await many.find(0)).toBeUndefined();
});

test("a pod whose name Kubernetes would refuse is not kept", async () => {
  const { find } = watching(1, (i) => (i === 0 ? "good" : "\u0436".repeat(200)));
  await eventually(async () => expect(await find(0)).toBeDefined());
  expect(await find(1)).toBeUndefined();
});

test("answers that come at once share the memory of their server, and give it back", async () => {
  const bodies: ReadableStreamDefaultController<Uint8Array>[] = [];
  const access = { server: "https://api.test", credential: () => "a" };
  const { send } = KubernetesClient.create(access, async () => {
    return new Response(new ReadableStream({ start: (body) => void bodies.push(body) }));
  });
  const maximumOctets = 10 * 1024 * 1024;
  const ask = () => send({ path: "/a", maximumOctets });
  const large = new Uint8Array(9 * 1024 * 1024).fill(0x20);
  const first = ask();
  const second = ask();
  await eventually(() => expect(bodies).toHaveLength(2));
  bodies[0]?.enqueue(large);
  await new Promise((resolve) => setImmediate(resolve));
  bodies[1]?.enqueue(large);
  await expect(second).rejects.toThrow("answers too much at once");
  bodies[0]?.enqueue(new TextEncoder().encode("1"));
  bodies[0]?.close();
  expect(await first).toBe(1);
  const third = ask();
  await eventually(() => expect(bodies).toHaveLength(3));
  bodies[2]?.enqueue(large);
  bodies[2]?.enqueue(new TextEncoder().encode("2"));
  bodies[2]?.close();
  expect(await third).toBe(2);
});
