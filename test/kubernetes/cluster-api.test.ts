import { expect, test } from "vitest";
import { AnswerTooLong, FetchError } from "../../src/foundation/fetch.ts";
import type { SendRequest } from "../../src/kubernetes/client.ts";
import { backoffSeconds, busyReportSeconds, ClusterApi } from "../../src/kubernetes/cluster-api.ts";
import { Pods } from "../../src/kubernetes/pods.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { podJson } from "../testkit/kubernetes/api-server.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00Z");
const request = { path: "/api/v1/namespaces/a/pods/b" };
const unreachable = { reason: "cluster-unreachable", cluster: "a" };
const busy = { reason: "cluster-busy", cluster: "a" };

function apiOver(send: SendRequest, faults: string[] = []): ClusterApi {
  return ClusterApi.create({
    cluster: "a",
    client: { send, open: async () => new Response() },
    failed: (cluster, { message }) => faults.push(`${cluster}: ${message}`),
  });
}

test("a failure is reported, and no request follows it for a moment", async () => {
  let sent = 0;
  const faults: string[] = [];
  const { send } = apiOver(async () => {
    sent++;
    throw new FetchError("did not answer");
  }, faults);
  for (const seconds of [0, backoffSeconds - 0.001]) {
    expect(await refusalOf(() => send(request, addSeconds(now, seconds)))).toEqual(unreachable);
  }
  expect([sent, faults]).toEqual([1, ["a: did not answer"]]);
  await refusalOf(() => send(request, addSeconds(now, backoffSeconds)));
  expect(sent).toBe(2);
  await refusalOf(() => send(request, addSeconds(now, -3600)));
  expect(sent).toBe(3);
});

test("gives the answers of an API server, and one that is too long stops no other request", async () => {
  let sent = 0;
  const { send } = apiOver(async () => {
    if (sent++ === 0) throw new AnswerTooLong();
    return sent === 2 ? "answer" : undefined;
  });
  expect(await refusalOf(() => send(request, now))).toEqual(unreachable);
  expect(await send(request, now)).toBe("answer");
  expect(await send(request, now)).toBeUndefined();
});

test("more than 32 requests at once are told to try again, and reported once in a while", async () => {
  const faults: string[] = [];
  const waiting: ((answer: string) => void)[] = [];
  const { send } = apiOver(() => new Promise((resolve) => waiting.push(resolve)), faults);
  const sent = Array.from({ length: 32 }, () => send(request, now));
  expect(await refusalOf(() => send(request, now))).toEqual(busy);
  waiting[0]?.("answer");
  expect(await sent[0]).toBe("answer");
  sent[0] = send(request, now);
  expect(faults).toEqual(["a: has too many requests to answer"]);
  for (const seconds of [0, 1, busyReportSeconds - 0.001, busyReportSeconds, -3600]) {
    await refusalOf(() => send(request, addSeconds(now, seconds)));
  }
  expect(faults).toHaveLength(3);
  for (const answer of waiting) answer("answer");
  expect(await Promise.all(sent)).toHaveLength(32);
});

test("an API server that has too many requests by its own word is busy, and not away before it is", async () => {
  const [statuses, faults] = [[429, 429, 503], [] as string[]];
  const { send } = apiOver(async () => {
    const status = statuses.shift() ?? 0;
    throw new FetchError(`answered with status ${status}`, { status });
  }, faults);
  for (const seconds of [0, backoffSeconds - 0.001, backoffSeconds]) {
    expect(await refusalOf(() => send(request, addSeconds(now, seconds)))).toEqual(busy);
  }
  expect([statuses, faults]).toEqual([[503], ["a: answered with status 429"]]);
  const later = addSeconds(now, 2 * backoffSeconds);
  for (let i = 0; i < 2; i++)
    expect(await refusalOf(() => send(request, later))).toEqual(unreachable);
});

test("two APIs of one cluster do not stop each other", async () => {
  let sent = 0;
  const client = { send: async () => sent++, open: async () => new Response() };
  const reach = { cluster: "a", client, failed: () => {} };
  const failing = ClusterApi.create({
    ...reach,
    client: { ...client, send: () => Promise.reject(new FetchError("did not answer")) },
  });
  const other = ClusterApi.create(reach);
  await refusalOf(() => failing.send(request, now));
  await other.send(request, now);
  expect(sent).toBe(1);
});

const pod = { namespace: "a", name: "b-0", uid: "1", account: "b", node: "node-1" };

test("a pod of another UID than that asked for is not remembered for it", async () => {
  const uids = ["0", "1"];
  const pods = Pods.create(apiOver(async () => podJson({ ...pod, uid: uids.shift() ?? "" })));
  const find = async () => (await pods.find("a", pod, now))?.uid;
  expect([await find(), await find()]).toEqual(["0", "1"]);
});

test("a pod of an account on one node says nothing of another node", async () => {
  const list = { items: [podJson(pod)] };
  const pods = Pods.create(apiOver(async () => list));
  const account = { namespace: "a", name: "b" };
  expect(await pods.isOn("node-1", account, now)).toBe(true);
  expect(await pods.isOn("node-2", account, now)).toBe(false);
});

test("a defect of this program is no fault of the cluster", async () => {
  const defect = new TypeError("a defect");
  await expect(apiOver(() => Promise.reject(defect)).send(request, now)).rejects.toBe(defect);
});
