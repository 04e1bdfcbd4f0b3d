import { expect, test } from "vitest";
import { AnswerTooLong, FetchError } from "../../src/foundation/json-fetch.ts";
import type { SendRequest } from "../../src/kubernetes/client.ts";
import {
  backoffSeconds,
  type ClusterApi,
  createClusterApi,
} from "../../src/kubernetes/cluster-api.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00Z");
const request = { path: "/api/v1/namespaces/a/pods/b" };
const unreachable = { reason: "cluster-unreachable", cluster: "a" };

function apiOver(send: SendRequest, faults: string[] = []): ClusterApi {
  return createClusterApi({
    cluster: "a",
    client: { send, watch: async function* () {} },
    unreachable: (cluster, { message }) => faults.push(`${cluster}: ${message}`),
  });
}

test("gives the answers of an API server", async () => {
  const { send } = apiOver(async ({ path }) => path);
  expect(await send(request, now)).toBe(request.path);
  expect(await apiOver(async () => undefined).send(request, now)).toBeUndefined();
});

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
});

test("an answer that is too long stops no other request", async () => {
  let sent = 0;
  const { send } = apiOver(async () => {
    if (sent++ === 0) throw new AnswerTooLong();
    return "answer";
  });
  expect(await refusalOf(() => send(request, now))).toEqual(unreachable);
  expect(await send(request, now)).toBe("answer");
});

test("more than 32 requests at once are refused, and reported to nobody", async () => {
  const faults: string[] = [];
  const waiting: ((answer: string) => void)[] = [];
  const { send } = apiOver(() => new Promise((resolve) => waiting.push(resolve)), faults);
  const sent = Array.from({ length: 32 }, () => send(request, now));
  expect(await refusalOf(() => send(request, now))).toEqual(unreachable);
  waiting[0]?.("answer");
  expect(await sent[0]).toBe("answer");
  sent[0] = send(request, now);
  for (const answer of waiting) answer("answer");
  expect(await Promise.all(sent)).toHaveLength(32);
  expect(faults).toEqual([]);
});

test("a defect of this program is no fault of the cluster", async () => {
  const defect = new TypeError("a defect");
  await expect(apiOver(() => Promise.reject(defect)).send(request, now)).rejects.toBe(defect);
});
