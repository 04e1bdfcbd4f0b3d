import { describe, expect, test } from "vitest";
import { AnswerTooLong, type Fetch, FetchError } from "../../src/foundation/fetch.ts";
import { KubernetesClient, type SendRequest } from "../../src/kubernetes/client.ts";
import { watchEvents } from "../../src/kubernetes/internal/watch-events.ts";
import { Listing } from "../../src/kubernetes/list-pages.ts";
import { writeUnlessConflict } from "../../src/kubernetes/object-write.ts";

const token = "token-of-a-test";
const never = new AbortController().signal;

const clientOf = (fetch: Fetch): KubernetesClient =>
  KubernetesClient.create({ server: "https://api.test", credential: () => token }, fetch);

type Body = string | Uint8Array;

const answering = (body: Body, status = 200): KubernetesClient =>
  clientOf(async () => new Response(status === 204 ? null : bodyOf([body]), { status }));

/** The pieces of a body, as they come; after them the connection breaks, if there is a fault. */
function bodyOf(pieces: readonly Body[], fault?: Error): ReadableStream<Uint8Array> {
  const rest = pieces.map((each) =>
    typeof each === "string" ? new TextEncoder().encode(each) : each,
  );
  return new ReadableStream({
    pull(controller) {
      const piece = rest.shift();
      if (piece) controller.enqueue(piece);
      else if (fault) controller.error(fault);
      else controller.close();
    },
  });
}

const silent: Fetch = (_, { signal }) =>
  new Promise((_, reject) => {
    const abort = (): void => reject(signal?.reason);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort);
  });

test("leaves an API server that does not answer in time", async () => {
  const access = { server: "https://api.test", credential: () => token };
  const { send } = KubernetesClient.create(access, silent, 20);
  await expect(send({ path: "/api/v1/pods" })).rejects.toThrow(FetchError);
  await expect(send({ path: "/api/v1/pods", signal: never })).rejects.toThrow(FetchError);
});

test("of a client without a token no token is sent, and the body of a refusal is closed", async () => {
  let closed = 0;
  const sent: RequestInit[] = [];
  const fetch: Fetch = async (_, init) => {
    sent.push(init);
    return new Response(new ReadableStream({ cancel: () => void closed++ }), { status: 403 });
  };
  const access = { server: "https://api.test", credential: () => "" };
  await failureOf(() => KubernetesClient.create(access, fetch).send({ path: "/a" }));
  expect([new Headers(sent[0]?.headers).has("authorization"), closed]).toEqual([false, 1]);
});

async function failureOf(act: () => unknown): Promise<FetchError> {
  try {
    await act();
  } catch (error) {
    if (error instanceof FetchError) return error;
    throw error;
  }
  throw new Error("it was accepted");
}

async function eventsOf(client: KubernetesClient, events: unknown[] = []): Promise<unknown[]> {
  const path = "/api/v1/pods?watch=1";
  for await (const event of watchEvents(client, path, Listing.maximumPageOctets, never))
    events.push(event);
  return events;
}

const refusedStatuses = [202, 204, 301, 307, 400, 401, 403, 409, 410, 422, 429, 500, 503];

describe("a request to an API server", () => {
  test.each([
    [{ path: "/a?b=c" }, "GET", null, undefined],
    [{ path: "/a", method: "POST", body: { a: 1 } }, "POST", "application/json", '{"a":1}'],
    [{ path: "/a", method: "PUT", body: {} }, "PUT", "application/json", "{}"],
    [{ path: "/a", method: "PATCH", body: {} }, "PATCH", "application/apply-patch+yaml", "{}"],
  ] as const)("%j is sent as %s", async (request, method, contentType, body) => {
    const sent: [string, RequestInit][] = [];
    const client = clientOf(async (url, init) => {
      sent.push([url, init]);
      return new Response("[1]", { status: 201 });
    });
    expect(await client.send(request)).toEqual([1]);
    const [[url, init] = ["", {}]] = sent;
    const headers = new Headers(init.headers);
    expect(url).toBe(`https://api.test${request.path}`);
    expect(init).toMatchObject({ method, redirect: "manual" });
    expect(init.body).toBe(body);
    expect(headers.get("authorization")).toBe(`Bearer ${token}`);
    expect(headers.get("content-type")).toBe(contentType);
  });

  test.each([
    ["7", 7],
    ["0", 0],
    ["-1", undefined],
    ["1e9", undefined],
    ["Wed, 21 Oct 2026 07:28:00 GMT", undefined],
  ])("that is refused with Retry-After: %s is to wait for %s seconds", async (text, seconds) => {
    const headers = { "retry-after": text };
    const client = clientOf(async () => new Response("{}", { status: 429, headers }));
    const error = await failureOf(() => client.send({ path: "/a" }));
    expect(error).toMatchObject({ status: 429, retryAfterSeconds: seconds });
  });

  test("shows the credential of the moment, and fails where it cannot be read", async () => {
    const shown: (string | null)[] = [];
    const fetch: Fetch = async (_, { headers }) => {
      shown.push(new Headers(headers).get("authorization"));
      return new Response("{}");
    };
    const credential = async (): Promise<string> => {
      if (shown.length < 2) return `token-${shown.length}`;
      throw new FetchError("cannot be asked: no token");
    };
    const { send } = KubernetesClient.create({ server: "https://api.test", credential }, fetch);
    for (let i = 0; i < 2; i++) await send({ path: "/a" });
    const failure = await failureOf(() => send({ path: "/a" }));
    expect(failure.message).toBe("cannot be asked: no token");
    expect(shown).toEqual(["Bearer token-0", "Bearer token-1"]);
  });

  test("finds nothing where the status is 404", async () => {
    expect(await answering("{}", 404).send({ path: "/a" })).toBeUndefined();
  });

  test.each(refusedStatuses)("fails by status %i, and names no query", async (status) => {
    const { send } = answering("{}", status);
    const failure = await failureOf(() => send({ path: "/api/v1/pods?continue=x" }));
    expect(failure.status).toBe(status);
    expect(failure.message).toContain("GET /api/v1/pods");
    expect(failure.message).toContain(`status ${status}`);
    expect(failure.message).not.toContain("continue");
  });

  test.each<[string, Body]>([
    ["HTML", "<html>"],
    ["nothing", ""],
    ["half an object", '{"a":'],
    ["no UTF-8", new Uint8Array([0x22, 0xff, 0x22])],
  ])("fails by an answer that is %s", async (_, body) => {
    const failure = await failureOf(() => answering(body).send({ path: "/a" }));
    expect(failure.status).toBeUndefined();
  });

  test("reads no more than it may", async () => {
    const send = (maximumOctets?: number) =>
      answering(`"${"a".repeat(300_000)}"`).send({
        path: "/a",
        ...(maximumOctets && { maximumOctets }),
      });
    expect(await send(300_002)).toHaveLength(300_000);
    expect(await failureOf(() => send(300_001))).toBeInstanceOf(AnswerTooLong);
    expect(await failureOf(() => send())).toBeInstanceOf(AnswerTooLong);
  });

  test("fails without a word of what the network says, which may quote the token", async () => {
    const { send } = clientOf(() => Promise.reject(new Error(`bad header: Bearer ${token}`)));
    const failure = await failureOf(() => send({ path: "/a" }));
    expect(failure.message).toBe("did not answer (no reason given)");
  });

  test("ends with its signal", async () => {
    const ending = new AbortController();
    const { send } = clientOf(silent);
    const failure = failureOf(() => send({ path: "/a", signal: ending.signal }));
    ending.abort();
    expect((await failure).message).toBe("did not answer (This operation was aborted)");
  });
});

describe("a watch", () => {
  const watching = (pieces: readonly Body[], fault?: Error): KubernetesClient =>
    clientOf(async () => new Response(bodyOf(pieces, fault)));
  const split = new TextEncoder().encode('{"a":"é"}\n');

  test.each<[string, Body[], unknown[]]>([
    ["one a line", ['{"a":1}\n{"a":2}\n'], [{ a: 1 }, { a: 2 }]],
    ["cut anywhere", ['{"a"', ":1}", '\n{"a":2', "}\n"], [{ a: 1 }, { a: 2 }]],
    ["cut inside of a character", [split.subarray(0, 7), split.subarray(7)], [{ a: "é" }]],
    ["between empty lines", ['\n\n{"a":1}\n\n'], [{ a: 1 }]],
    ["the last without a line break", ['{"a":1}\n{"a":2}'], [{ a: 1 }, { a: 2 }]],
    ["none at all", [], []],
  ])("yields events, %s", async (_, pieces, events) => {
    expect(await eventsOf(watching(pieces))).toEqual(events);
  });

  test.each([404, ...refusedStatuses])("fails by status %i", async (status) => {
    const failure = await failureOf(() => eventsOf(answering("{}\n", status)));
    expect(failure.status).toBe(status);
  });

  test("yields what came before a connection broke, and fails then", async () => {
    const events: unknown[] = [];
    const broken = watching(['{"a":1}\n', '{"a"'], new Error(`Bearer ${token}`));
    const failure = await failureOf(() => eventsOf(broken, events));
    expect(events).toEqual([{ a: 1 }]);
    expect(failure.message).toBe("broke off its answer (no reason given)");
  });

  test.each<[string, Body[]]>([
    ["is no JSON", ['{"a":1}\n', "<html>\n"]],
    ["ends in the middle", ['{"a":1}\n{"a"']],
    ["is no UTF-8", [new Uint8Array([0x22, 0xff, 0x22, 0x0a])]],
  ])("fails by an event that %s", async (_, pieces) => {
    await failureOf(() => eventsOf(watching(pieces)));
  });

  test("fails by an event that never ends", async () => {
    const piece = new Uint8Array(Listing.maximumPageOctets / 4).fill(0x20);
    let sent = 0;
    const endless = new ReadableStream({
      pull: (controller) => {
        // Beyond this, nobody has looked.
        if (++sent > 20) controller.close();
        else controller.enqueue(piece);
      },
    });
    const client = clientOf(async () => new Response(endless));
    expect(await failureOf(() => eventsOf(client))).toBeInstanceOf(AnswerTooLong);
    expect(sent).toBeLessThan(10);
  });

  test("fails by an event of many values, and by one in pieces of an octet", async () => {
    const dense = [`[${Array(100_000).fill("{}").join()}]\n`];
    expect(await failureOf(() => eventsOf(watching(dense)))).toBeInstanceOf(AnswerTooLong);
    const drip = Array.from({ length: 1_000 }, () => " ");
    const failure = await failureOf(() => eventsOf(watching(drip)));
    expect(failure.message).toBe("answered in too small pieces");
  });
});

const object = { collection: "/things", namespace: "istio-system", name: "one", body: {} };
const creation = { ...object, version: undefined };
const replacement = { ...object, version: "7" };

const failing =
  (status: number): SendRequest =>
  () =>
    Promise.reject(new FetchError(`answered with status ${status}`, { status }));

const answersWith =
  (answer: unknown): SendRequest =>
  async () =>
    answer;

test.each([
  ["makes an object", creation, answersWith({}), true],
  ["replaces a version", replacement, answersWith({}), true],
  ["makes no object whose name is taken", creation, failing(409), false],
  ["replaces no version but the one that it names", replacement, failing(409), false],
  ["replaces no object that is gone", replacement, answersWith(undefined), false],
] as const)("%s", async (_, write, send, came) => {
  expect(await writeUnlessConflict(send, write)).toBe(came);
});

test("makes an object among others, and replaces it at its own path", async () => {
  const requests: unknown[] = [];
  const send: SendRequest = async ({ method, path }) => requests.push([method, path]);
  for (const write of [creation, replacement]) await writeUnlessConflict(send, write);
  expect(requests).toEqual([
    ["POST", "/things"],
    ["PUT", "/things/one"],
  ]);
});

test("names the namespace that does not exist", async () => {
  const writing = writeUnlessConflict(answersWith(undefined), creation);
  await expect(writing).rejects.toThrow(/no namespace istio-system/);
});

test.each([401, 403, 422, 500])("throws what another status says: %i", async (status) => {
  const writing = writeUnlessConflict(failing(status), replacement);
  await expect(writing).rejects.toMatchObject({ status });
});
