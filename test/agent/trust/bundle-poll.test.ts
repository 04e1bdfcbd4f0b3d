import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import type { BundleDocument } from "../../../src/agent/trust/bundle-document.ts";
import { BundlePoll, type BundlePollOptions } from "../../../src/agent/trust/bundle-poll.ts";
import { FederatedBundles } from "../../../src/agent/trust/federated-bundles.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { hangMilliseconds } from "../../testkit/hang-limit.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { createTestAuthority } from "../identity/test-authority.ts";

const root = await createTestAuthority();
const keys = [{ use: "x509-svid", kty: "EC", x5c: [root.certificate.raw.toString("base64")] }];
const bundle = (sequence: number): string =>
  JSON.stringify({ keys, spiffe_sequence: sequence, spiffe_refresh_hint: 1 });

/** The time by the clock of the polls. */
let now = new Date("2026-11-21T12:00:00Z");

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const poll = (...answers: Answer[]) => pollWith({ longestRefreshSeconds: 0.01 }, ...answers);

/** Polls a server that answers with each of these in turn, and then always with the last. */
async function pollWith(options: Partial<BundlePollOptions>, ...answers: Answer[]) {
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
  const polling = new BundlePoll({
    url: `${server.origin}/bundle.json`,
    tlsOptions: async () => ({}),
    onBundle: ({ sequence }) => {
      record(`bundle ${sequence}`);
      return sequence > 0;
    },
    onConfirmed: () => record("confirmed"),
    longestRefreshSeconds: 300,
    mayWait: true,
    timeoutSeconds: hangMilliseconds / 1000,
    clock: () => now,
    random: () => 1,
    log: { operation: () => record("unread") },
    ...options,
  });
  const ending = new AbortController();
  const running = polling.run(ending.signal);
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
  return { polling, until };
}

const ok =
  (text: string, etag = '"1"'): Answer =>
  (request, response) => {
    const isKnown = request.headers["if-none-match"] === etag;
    response.writeHead(isKnown ? 304 : 200, { etag }).end(isKnown ? "" : text);
  };

test("makes conditional requests after the first", async () => {
  const { until, polling } = await poll(ok(bundle(1)), ok(bundle(1)), ok(bundle(2), '"2"'));
  expect(await until(3)).toEqual(["bundle 1", "confirmed", "bundle 2"]);
  expect(polling.confirmedAt).toBeInstanceOf(Date);
});

const switched = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";

test.each<[string, Answer]>([
  ["an error", (_q, r) => void r.writeHead(503).end()],
  ["a redirect", (_q, r) => void r.writeHead(302, { location: "http://evil.test/" }).end()],
  ["garbage", ok("<html>")],
  ["no answer", (_q, r) => void r.destroy()],
  ["another protocol", (_q, r) => void r.socket?.end(switched)],
  ["too much", (_q, r) => void r.end(Buffer.alloc(2 << 20, " "))],
])("survives %s, logs it, and asks again", async (_name, answer) => {
  const { until } = await poll(answer, ok(bundle(1)));
  expect(await until(2)).toEqual(["unread", "bundle 1"]);
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
  const { until } = await pollWith({}, first, first, second);
  expect(await until(3)).toEqual(["bundle 1", "confirmed", "bundle 2"]);
  expect(requests).toEqual([
    { tag: undefined, prefer: "wait=300" },
    { tag: '"1"', prefer: "wait=300" },
    { tag: '"1"', prefer: "wait=300" },
  ]);
});

test("no endpoint is asked to hold an answer for longer than the longest refresh", async () => {
  const requests: RequestHeaders[] = [];
  const { until } = await pollWith(
    { longestRefreshSeconds: 7 },
    holding(lasting(1), '"1"', requests),
  );
  await until(1);
  expect(requests).toEqual([{ tag: undefined, prefer: "wait=7" }]);
});

test("an endpoint that may not be asked to wait is not, and its grant of a wait is ignored", async () => {
  const requests: RequestHeaders[] = [];
  const { until } = await pollWith({ mayWait: false }, holding(bundle(1), '"1"', requests));
  expect(await until(2)).toEqual(["bundle 1", "confirmed"]);
  expect(requests).toEqual([
    { tag: undefined, prefer: undefined },
    { tag: '"1"', prefer: undefined },
  ]);
});

test("after a failure the request is unconditional, and is answered at once", async () => {
  const requests: RequestHeaders[] = [];
  const good = holding(lasting(1), '"1"', requests);
  const { until } = await pollWith({}, good, (_q, r) => void r.destroy(), good);
  expect(await until(3)).toEqual(["bundle 1", "unread", "bundle 1"]);
  expect(requests.at(-1)).toEqual({ tag: undefined, prefer: "wait=300" });
});

test("a refused bundle does not change the conditional request", async () => {
  const requests: RequestHeaders[] = [];
  const [good, refused] = [
    holding(lasting(1), '"1"', requests),
    holding(lasting(0), '"0"', requests),
  ];
  const { until, polling } = await pollWith({}, good, refused, refused, good);
  expect(await until(4)).toEqual(["bundle 1", "bundle 0", "bundle 0", "bundle 1"]);
  expect(polling.lastError).toBeUndefined();
});

const document = (sequence: number, ...roots: readonly (typeof root)[]): BundleDocument => ({
  sequence,
  refreshSeconds: 1,
  roots: roots.map(({ certificate }) => certificate),
});

test("a federated bundle that goes backwards is refused", () => {
  const bundles = new FederatedBundles();
  expect(bundles.update(clusterLocal, document(2, root))).toBe("taken");
  expect(bundles.update(clusterLocal, document(1))).toBe("sequence-backwards");
  expect(bundles.current.get(clusterLocal)).toHaveLength(1);
});

test("a federated bundle without roots withdraws its trust domain", () => {
  const bundles = new FederatedBundles();
  bundles.update(clusterLocal, document(1, root));
  bundles.update(clusterLocal, document(2));
  expect(bundles.current.size).toBe(0);
});
