import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { RequestQueue } from "../../../src/node/signer/request-queue.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";

const start = new Date("2026-11-22T12:00:00Z");

/** A queue whose answers a test decides, and a clock that it moves. */
function queueOf(
  keys: readonly string[],
  answer: (key: string) => unknown,
  needsCa: (key: string) => boolean = () => true,
) {
  let now = start;
  const asked: string[] = [];
  const told: string[] = [];
  const items = new Map(keys.map((key) => [key, key]));
  const queue = new RequestQueue({
    requests: { items, hasAll: () => true, fault: () => undefined },
    answer: async (key, _, mayAskCa) => {
      if (needsCa(key) && !mayAskCa()) return false;
      asked.push(key);
      const fault = answer(key);
      if (fault) throw fault;
      return true;
    },
    ownerOf: (key) => key.replace(/-.*/, ""),
    failed: (detail, key) => void told.push(`${key}: ${detail}`),
    clock: () => now,
  });
  const pass = (seconds: number): void => {
    now = addSeconds(now, seconds);
  };
  return Object.assign(queue, { items, asked, told, pass });
}

test("an outage of the API server is no fault any more once it has taken an answer", async () => {
  let fault: unknown = new FetchError("did not answer");
  const queue = queueOf(["a", "b"], (key) =>
    key === "a" ? fault : (fault ?? new ConnectError("not that", Code.PermissionDenied)),
  );
  await queue.work();
  expect(queue.trouble()).toBe("the API server did not answer");
  fault = undefined;
  queue.pass(10);
  await queue.work();
  expect(queue.pending()).toBe(1);
  expect(queue.trouble()).toBeUndefined();
});

describe("an outage of the CA is no fault any more", () => {
  const away = new Error("the CA did not answer");

  test("once the CA has refused a request", async () => {
    let fault: unknown = away;
    const queue = queueOf(["a"], () => fault);
    await queue.work();
    expect(queue.trouble()).toBe(away.message);
    fault = new ConnectError("not that", Code.PermissionDenied);
    queue.pass(10);
    await queue.work();
    expect(queue.trouble()).toBeUndefined();
  });

  test("once no request waits", async () => {
    const queue = queueOf(["a"], () => away);
    await queue.work();
    queue.items.clear();
    expect(queue.trouble()).toBeUndefined();
  });
});

const apiFault = (status: number, retryAfterSeconds?: number) =>
  new FetchError(`answered with status ${status}`, { status, retryAfterSeconds });

const many = Array.from({ length: 30 }, (_, i) => `r${i}`);

test("answers each request once, before the watch hears of it", async () => {
  const queue = queueOf(many, () => undefined);
  await queue.work();
  await queue.work();
  expect(queue.asked.toSorted()).toEqual(many.toSorted());
  expect(queue.pending()).toBe(0);
});

describe("a request that the CA refuses", () => {
  test.each([Code.InvalidArgument, Code.PermissionDenied, Code.ResourceExhausted])(
    "with code %i is tried again with growing pauses, and does not hold up the others",
    async (code) => {
      const queue = queueOf(["bad", "good"], (key) =>
        key === "bad" ? new ConnectError("not that", code) : undefined,
      );
      await queue.work();
      expect([...queue.items.keys()]).toEqual(["bad"]);
      for (const [seconds, times] of [
        [0, 1],
        [1, 2],
        [1, 2],
        [1, 3],
        [3, 3],
        [1, 4],
      ] as const) {
        queue.pass(seconds);
        await queue.work();
        expect(queue.asked.filter((key) => key === "bad").length).toBe(times);
      }
      expect(queue.told).toEqual(Array(4).fill("bad: the CA refuses: not that"));
      expect(queue.trouble()).toBeUndefined();
    },
  );

  test("waits five minutes at most", async () => {
    const queue = queueOf(["bad"], () => new ConnectError("no", Code.PermissionDenied));
    for (let i = 0; i < 20; i++) {
      queue.pass(300);
      await queue.work();
    }
    expect(queue.asked.length).toBe(20);
  });

  test("is forgotten when it is gone, and another that fails is not", async () => {
    const queue = queueOf(["a", "b"], () => new ConnectError("no", Code.PermissionDenied));
    await queue.work();
    queue.items.delete("a");
    await queue.work();
    queue.items.set("a", "a");
    await queue.work();
    expect(queue.asked).toEqual(["a", "b", "a"]);
  });
});

describe.each<[string, unknown]>([
  ["the CA is away", new Error("ECONNREFUSED")],
  ["the CA cannot sign", new ConnectError("later", Code.Unavailable)],
  ["the CA does not know the signer", new ConnectError("who", Code.Unauthenticated)],
  ["the API server fails", apiFault(500)],
  ["the API server refuses the signer", apiFault(403)],
])("while %s", (_, fault) => {
  test("one request is tried for all, with growing pauses, and one line says so", async () => {
    let isAway = true;
    const queue = queueOf(many, () => (isAway ? fault : undefined));
    await queue.work();
    const first = queue.asked.length;
    expect(first).toBeLessThanOrEqual(8);
    expect(queue.told.length).toBe(1);
    expect(queue.trouble()).toBeDefined();
    await queue.work();
    expect(queue.asked.length).toBe(first);
    queue.pass(1);
    await queue.work();
    expect(queue.told.length).toBe(2);
    queue.pass(1);
    await queue.work();
    expect(queue.told.length).toBe(2);
    isAway = false;
    queue.pass(1);
    await queue.work();
    expect(queue.pending()).toBe(0);
    expect(queue.trouble()).toBeUndefined();
    // The next outage begins with the shortest pause.
    isAway = true;
    queue.items.set("next", "next");
    await queue.work();
    queue.pass(1);
    await queue.work();
    expect(queue.told.length).toBe(4);
  });
});

describe("a request that needs no CA", () => {
  const needsCa = (key: string): boolean => key !== "denied";

  test("has its answer while the CA is away, whose outage goes on", async () => {
    const answer = (key: string) => (needsCa(key) ? new Error("ECONNREFUSED") : undefined);
    const queue = queueOf(many, answer, needsCa);
    await queue.work();
    queue.pass(1);
    await queue.work();
    queue.items.set("denied", "denied");
    await queue.work();
    expect(queue.asked.at(-1)).toBe("denied");
    expect(queue.pending()).toBe(many.length);
    expect(queue.trouble()).toBe("ECONNREFUSED");
    const asked = queue.asked.length;
    queue.pass(1);
    await queue.work();
    expect(queue.asked.length).toBe(asked);
  });

  test("waits for the API server, which is told apart from the CA", async () => {
    const queue = queueOf(
      ["a", "denied"],
      (key) => (needsCa(key) ? new Error("ECONNREFUSED") : apiFault(500)),
      needsCa,
    );
    await queue.work();
    await queue.work();
    expect(queue.asked).toEqual(["a", "denied"]);
    expect(queue.told.length).toBe(2);
  });
});

test("an API server that says how long to wait gets no request until then", async () => {
  let isBusy = true;
  const queue = queueOf(["a"], () => (isBusy ? apiFault(429, 20) : undefined));
  await queue.work();
  isBusy = false;
  queue.pass(19);
  await queue.work();
  expect(queue.asked).toEqual(["a"]);
  queue.pass(1);
  await queue.work();
  expect(queue.asked).toEqual(["a", "a"]);
});

test.each([
  ["an outage of the API server", new FetchError("did not answer")],
  ["an outage of the CA", new Error("the CA did not answer")],
  ["a request that the CA refuses", new ConnectError("not that", Code.PermissionDenied)],
])("a clock that is set back prolongs no pause after %s", async (_, fault) => {
  const queue = queueOf(["a"], () => fault);
  await queue.work();
  queue.pass(-3600);
  await queue.work();
  expect(queue.asked).toEqual(["a", "a"]);
});

test.each([404, 409])(
  "a request that is gone (status %i) is dropped without a word",
  async (status) => {
    const queue = queueOf(["a", "b"], (key) => (key === "a" ? apiFault(status) : undefined));
    await queue.work();
    expect(queue.pending()).toBe(0);
    expect(queue.told).toEqual([]);
  },
);

test("an answer that the API server finds invalid does not hold up the others", async () => {
  const queue = queueOf(["a", "b"], (key) => (key === "a" ? apiFault(422) : undefined));
  await queue.work();
  queue.items.set("c", "c");
  await queue.work();
  expect([...queue.items.keys()]).toEqual(["a"]);
  expect(queue.told).toEqual([
    "a: the API server answered with status 422, as it does where the account of this program may not `sign` for the signer name",
  ]);
});

test("of many requests of one owner, those of others have the first turns, also of those that come meanwhile", async () => {
  const many = Array.from({ length: 100 }, (_, i) => `evil-${i}`);
  const queue = queueOf([...many, "good-1", "good-2", "other-1"], () => {
    if (queue.asked.length === 40) queue.items.set("late-1", "late-1");
    return undefined;
  });
  await queue.work();
  expect(queue.asked.slice(0, 5)).toEqual(["evil-0", "good-1", "other-1", "evil-1", "good-2"]);
  expect(queue.asked.indexOf("late-1")).toBeLessThan(70);
  expect(queue.asked).toHaveLength(104);
});

test("keeps no name that is gone, so that one which comes again is asked for again", async () => {
  const queue = queueOf(["a", "b"], (key) => {
    if (key === "b" && queue.asked.length === 2) queue.items.set("c", "c");
    if (key === "c" && queue.asked.length === 3) queue.items.set("a", "a");
    return undefined;
  });
  await queue.work();
  expect(queue.asked).toEqual(["a", "b", "c", "a"]);
});
