import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { pause } from "../../../src/foundation/pause.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import {
  DocumentFollower,
  type DocumentFollowerOptions,
} from "../../../src/program/bundle/document-follower.ts";
import { bundleDocument, type SpiffeBundle } from "../../../src/program/bundle/spiffe-bundle.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const root = await createTestAuthority();
const keys = [{ use: "x509-svid", kty: "EC", x5c: [root.certificate.raw.toString("base64")] }];
const bundle = (sequence: number): string =>
  JSON.stringify({ keys, spiffe_sequence: sequence, spiffe_refresh_hint: 1 });

/** The time by the clock of the followers. */
let now = new Date("2026-11-21T12:00:00Z");

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const follow = (...answers: Answer[]) => followWith({ longestRefreshSeconds: 0.01 }, ...answers);

/** Follows a server that answers with each of these in turn, and then always with the last. */
async function followWith(
  options: Partial<DocumentFollowerOptions<SpiffeBundle>>,
  ...answers: Answer[]
) {
  let count = 0;
  const server = await startLoopbackServer((request, response) => {
    answers[Math.min(count++, answers.length - 1)]?.(request, response);
  });
  const outcomes: string[] = [];
  let wake = (): void => undefined;
  const record = (what: string): void => {
    outcomes.push(what);
    wake();
  };
  const follower = new DocumentFollower({
    url: `${server.origin}/bundle.json`,
    kind: bundleDocument,
    tlsOptions: async () => ({}),
    onDocument: ({ sequence }) => {
      record(`bundle ${sequence}`);
      return sequence > 0;
    },
    onConfirmed: () => record("confirmed"),
    longestRefreshSeconds: 300,
    longestWaitSeconds: 300,
    timeoutMilliseconds: hangMilliseconds,
    clock: () => now,
    random: () => 1,
    pause,
    failed: () => record("failed"),
    ...options,
  });
  const ending = new AbortController();
  const running = follower.run(ending.signal);
  onTestFinished(async () => {
    ending.abort();
    await running;
  });
  const until = async (times: number): Promise<readonly string[]> => {
    while (outcomes.length < times) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return outcomes.slice(0, times);
  };
  return { follower, until };
}

const ok =
  (text: string, etag = '"1"'): Answer =>
  (request, response) => {
    const isKnown = request.headers["if-none-match"] === etag;
    response.writeHead(isKnown ? 304 : 200, { etag }).end(isKnown ? "" : text);
  };

test("makes conditional requests after the first", async () => {
  const { until, follower } = await follow(ok(bundle(1)), ok(bundle(1)), ok(bundle(2), '"2"'));
  expect(await until(3)).toEqual(["bundle 1", "confirmed", "bundle 2"]);
  expect(follower.confirmedAt).toBeInstanceOf(Date);
});

const switched = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";

const encoded = (response: ServerResponse): void => {
  response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(bundle(1)));
};

test.each<[string, Answer]>([
  ["a redirect", (_q, r) => void r.writeHead(302, { location: "http://evil.test/" }).end()],
  ["garbage", ok("<html>")],
  ["another protocol", (_q, r) => void r.socket?.end(switched)],
  ["too much", (_q, r) => void r.end(Buffer.alloc(2 << 20, " "))],
  ["what is not UTF-8", (_q, r) => void r.end(Uint8Array.of(0x22, 0xff, 0x22))],
  ["a bundle that it has encoded", (_q, r) => encoded(r)],
  ["that an unknown bundle has not changed", (_q, r) => void r.writeHead(304).end()],
])("survives %s, logs it, and asks again", async (_name, answer) => {
  const { until } = await follow(answer, ok(bundle(1)));
  expect(await until(2)).toEqual(["failed", "bundle 1"]);
});

/** A bundle with a refresh hint of five minutes. */
const lasting = (sequence: number): string => bundle(sequence).replace('hint":1', 'hint":300');

/** The headers of a request. */
interface RequestHeaders {
  readonly tag: string | undefined;
  readonly prefer: unknown;
}

/** Grants a wait, and holds its answer by the test's clock if the bundle has not changed. */
function holding(text: string, etag: string, requests: RequestHeaders[]): Answer {
  return ({ headers }, response) => {
    const { "if-none-match": tag, prefer } = headers;
    requests.push({ tag, prefer });
    const head = { etag, "preference-applied": "wait=1" };
    if (tag === etag) now = addSeconds(now, 1);
    response.writeHead(tag === etag ? 304 : 200, head).end(tag === etag ? "" : text);
  };
}

test("an endpoint that holds its answers is asked again as soon as it has answered", async () => {
  const requests: RequestHeaders[] = [];
  const [first, second] = [
    holding(lasting(1), '"1"', requests),
    holding(lasting(2), '"2"', requests),
  ];
  const { until } = await followWith({}, first, first, second);
  expect(await until(3)).toEqual(["bundle 1", "confirmed", "bundle 2"]);
  expect(requests).toEqual([
    { tag: undefined, prefer: "wait=300" },
    { tag: '"1"', prefer: "wait=300" },
    { tag: '"1"', prefer: "wait=300" },
  ]);
});

test("no endpoint is asked to hold an answer for longer than it may", async () => {
  const requests: RequestHeaders[] = [];
  const { until } = await followWith(
    { longestWaitSeconds: 7 },
    holding(lasting(1), '"1"', requests),
  );
  await until(1);
  expect(requests).toEqual([{ tag: undefined, prefer: "wait=7" }]);
});

test("an endpoint that may not be asked to wait is not, and its grant of a wait is ignored", async () => {
  const requests: RequestHeaders[] = [];
  const { until } = await followWith(
    { longestWaitSeconds: 0 },
    holding(bundle(1), '"1"', requests),
  );
  expect(await until(2)).toEqual(["bundle 1", "confirmed"]);
  expect(requests).toEqual([
    { tag: undefined, prefer: undefined },
    { tag: '"1"', prefer: undefined },
  ]);
});

test("after a failure the request is unconditional, and is answered at once", async () => {
  const requests: RequestHeaders[] = [];
  const good = holding(lasting(1), '"1"', requests);
  const { until } = await followWith({}, good, (_q, r) => void r.destroy(), good);
  expect(await until(3)).toEqual(["bundle 1", "failed", "bundle 1"]);
  expect(requests.at(-1)).toEqual({ tag: undefined, prefer: "wait=300" });
});

test("a refused bundle does not change the conditional request", async () => {
  const requests: RequestHeaders[] = [];
  const [good, refused] = [
    holding(lasting(1), '"1"', requests),
    holding(lasting(0), '"0"', requests),
  ];
  const { until, follower } = await followWith({}, good, refused, refused, good);
  expect(await until(4)).toEqual(["bundle 1", "bundle 0", "bundle 0", "bundle 1"]);
  expect(follower.lastError).toBeUndefined();
});

test("an endpoint that grants a wait without end is asked again all the same", async () => {
  const granting: Answer = ({ headers: { "if-none-match": tag } }, response) => {
    const head = { etag: '"1"', "preference-applied": `wait=${"9".repeat(30)}` };
    if (tag === undefined) response.writeHead(200, head).end(lasting(1));
    else response.writeHead(304, head).end();
  };
  const { until } = await follow(granting);
  expect(await until(3)).toEqual(["bundle 1", "confirmed", "confirmed"]);
});

test("the TLS options are read before each request, and unreadable ones are a failure", async () => {
  let reads = 0;
  const tlsOptions = async () => {
    if (++reads === 2) throw new Error("no roots");
    return {};
  };
  const { until, follower } = await followWith(
    { longestRefreshSeconds: 0.01, tlsOptions },
    ok(bundle(1)),
  );
  expect(await until(3)).toEqual(["bundle 1", "failed", "bundle 1"]);
  expect(follower.lastError).toBeUndefined();
});

test("an endpoint that has no document is asked again later, and has not failed", async () => {
  const absent: Answer = (_q, r) => void r.writeHead(404).end();
  let requests = 0;
  const counted: Answer = (q, r) => {
    requests++;
    absent(q, r);
  };
  const { until, follower } = await followWith(
    { longestRefreshSeconds: 0.01, mayBeAbsent: () => true },
    counted,
    counted,
    ok(bundle(1)),
  );
  expect(await until(1)).toEqual(["bundle 1"]);
  expect(requests).toBe(2);
  expect(follower.lastError).toBeUndefined();
});

test("a document that must be there has failed where the endpoint has none", async () => {
  const { until, follower } = await followWith(
    { longestRefreshSeconds: 0.01, mayBeAbsent: () => false },
    (_q, r) => void r.writeHead(404).end(),
  );
  expect(await until(1)).toEqual(["failed"]);
  expect(follower.lastError).toBe("the bundle endpoint answered with status 404");
});

test("the pauses of an outage are never longer than the longest refresh", async () => {
  const pauses: number[] = [];
  const { until } = await followWith(
    {
      longestRefreshSeconds: 2,
      pause: async (milliseconds) => {
        pauses.push(milliseconds);
        now = addSeconds(now, milliseconds / 1000);
      },
    },
    (_request, response) => response.writeHead(503).end(),
  );
  await until(12);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(2_000);
});

test("an outage that has ended leaves neither its pauses nor its error", async () => {
  const failing: Answer = (_request, response) => response.writeHead(503).end();
  const silent: Answer = () => {};
  const begins: number[] = [];
  const errors: (string | undefined)[] = [];
  const { until, follower } = await followWith(
    {
      longestWaitSeconds: 0,
      random: () => 0.5,
      pause: async (milliseconds) => {
        begins.push(milliseconds);
        errors.push(follower.lastError);
        now = addSeconds(now, milliseconds / 1000);
      },
    },
    ...[failing, failing, ok(bundle(1)), failing, failing, ok(bundle(2)), silent],
  );
  await until(6);
  const outages = [begins.slice(0, 2), begins.slice(3, 5)];
  expect(outages[1]).toEqual(outages[0]);
  expect(errors[0]).toMatch(/status 503/);
  expect(errors[2]).toBeUndefined();
});
