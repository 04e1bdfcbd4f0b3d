import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import type { BundleDocument } from "../../src/agent/bundle-document.ts";
import { BundlePoll } from "../../src/agent/bundle-poll.ts";
import { FederatedBundles } from "../../src/agent/federated-bundles.ts";
import { clusterLocal } from "../testkit/certificates.ts";
import { startLoopbackServer } from "../testkit/loopback-server.ts";
import { createTestAuthority } from "./test-authority.ts";

const root = await createTestAuthority();
const keys = [{ use: "x509-svid", kty: "EC", x5c: [root.certificate.raw.toString("base64")] }];
const bundle = (sequence: number): string =>
  JSON.stringify({ keys, spiffe_sequence: sequence, spiffe_refresh_hint: 1 });

/** Polls a server that answers each request with the next of these, and then with the last again. */
async function poll(...answers: ((request: IncomingMessage, response: ServerResponse) => void)[]) {
  let count = 0;
  const server = await startLoopbackServer((request, response) => {
    answers[Math.min(count++, answers.length - 1)]?.(request, response);
  });
  const heard: string[] = [];
  let wake = (): void => undefined;
  const hear = (what: string): void => {
    heard.push(what);
    wake();
  };
  const polling = new BundlePoll({
    url: `${server.origin}/bundle.json`,
    tlsOptions: async () => ({}),
    onBundle: ({ sequence }) => hear(`bundle ${sequence}`),
    onConfirmed: () => hear("confirmed"),
    longestRefreshSeconds: 0.01,
    clock: () => new Date(),
    random: () => 1,
    log: () => hear("unread"),
  });
  const ending = new AbortController();
  const running = polling.run(ending.signal);
  onTestFinished(async () => {
    ending.abort();
    await running;
  });
  const until = async (times: number): Promise<readonly string[]> => {
    while (heard.length < times) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return heard.slice(0, times);
  };
  return { polling, until };
}

const ok =
  (text: string, etag = '"1"') =>
  (request: IncomingMessage, response: ServerResponse): void => {
    const isKnown = request.headers["if-none-match"] === etag;
    response.writeHead(isKnown ? 304 : 200, { etag }).end(isKnown ? "" : text);
  };

test("asks again only whether the bundle has changed", async () => {
  const { until, polling } = await poll(ok(bundle(1)), ok(bundle(1)), ok(bundle(2), '"2"'));
  expect(await until(3)).toEqual(["bundle 1", "confirmed", "bundle 2"]);
  expect(polling.confirmedAt).toBeInstanceOf(Date);
});

test.each<[string, (request: IncomingMessage, response: ServerResponse) => void]>([
  ["an error", (_q, r) => void r.writeHead(503).end()],
  ["a redirect", (_q, r) => void r.writeHead(302, { location: "http://evil.test/" }).end()],
  ["garbage", ok("<html>")],
  ["no answer", (_q, r) => void r.destroy()],
  ["too much", (_q, r) => void r.end(Buffer.alloc(2 << 20, " "))],
])("survives %s, says so, and asks again", async (_name, answer) => {
  const { until } = await poll(answer, ok(bundle(1)));
  expect(await until(2)).toEqual(["unread", "bundle 1"]);
});

const document = (sequence: number, ...roots: readonly (typeof root)[]): BundleDocument => ({
  sequence,
  refreshSeconds: 1,
  roots: roots.map(({ certificate }) => certificate),
});

test("a federated bundle that goes backwards is refused", () => {
  const bundles = new FederatedBundles();
  expect(bundles.learn(clusterLocal, document(2, root))).toBe(true);
  expect(bundles.learn(clusterLocal, document(1))).toBe(false);
  expect(bundles.current.get(clusterLocal)).toHaveLength(1);
});

test("a federated trust domain without roots is one that nobody believes", () => {
  const bundles = new FederatedBundles();
  bundles.learn(clusterLocal, document(1, root));
  bundles.learn(clusterLocal, document(2));
  expect(bundles.current.size).toBe(0);
});
