import { getEventListeners } from "node:events";
import { Hono } from "hono";
import { beforeEach, describe, expect, test } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { parseWaitSeconds } from "../../../src/foundation/headers.ts";
import { createTaint } from "../../../src/pki/authority/new-taint.ts";
import { LongPolls } from "../../../src/transport/http/long-poll.ts";
import { PolledEndpoint } from "../../../src/transport/http/polled-endpoint.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import {
  type BundleFormat,
  createBundleEndpoint,
} from "../../../src/transport/http/trust-routes.ts";
import { origin } from "../../contract/service-under-test.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { openStore, signerOf } from "../../testkit/ca/tainted-ca.ts";
import { eventually } from "../../testkit/time/eventually.ts";

let ca: RunningCa;
let etag: string;

beforeEach(async () => {
  ca = await startCa({}, { hasNoNamesake: true });
  await ca.found();
  etag = (await ca.app.request("/bundle.json")).headers.get("etag") ?? "";
});

function wait(path = "/bundle.json", { app = ca.app, signal = new AbortController().signal } = {}) {
  const headers = { "if-none-match": etag, prefer: "wait=30" };
  return app.fetch(new Request(`${origin}${path}`, { headers, signal }));
}

/** Taints the authority that signs, and moves the clock by a second. */
async function taint(): Promise<void> {
  const id = (await signerOf(ca)) ?? "";
  const store = await openStore(ca.mint);
  const { phaseLengths } = ca.mint;
  await Mint.recordTaint(ca.mint, createTaint(store, id, "immediately", phaseLengths, ca.now()));
  ca.pass(1);
}

describe("a long poll for the trust bundle", () => {
  test("gets a changed bundle at once, in an answer that no cache may keep", async () => {
    const answer = wait();
    await taint();
    await ca.rotate();
    ca.pass(1);
    const response = await answer;
    expect(response.status).toBe(200);
    expect(response.headers.get("etag")).not.toBe(etag);
    expect(response.headers.get("preference-applied")).toBe("wait=30");
    expect(response.headers.get("cache-control")).toBe("no-store");
  });

  test("goes on while there is no bundle", async () => {
    const answer = wait();
    await taint();
    await eventually(async () => expect((await ca.app.request("/bundle.json")).status).toBe(503));
    await ca.rotate();
    ca.pass(1);
    expect((await answer).status).toBe(200);
  });

  test("gets 503 when the store fails", async () => {
    const answer = wait();
    ca.store.outage = new Error("KV GET failed: 500");
    ca.pass(1);
    const response = await answer;
    expect(response.status).toBe(503);
    expect(response.headers.has("preference-applied")).toBe(false);
  });

  test("never gets an older bundle from a slow read", async () => {
    const slow = Promise.withResolvers<void>();
    let writes = 0;
    const format: BundleFormat = {
      write: async ({ trustBundle }) => {
        if (writes++ === 0) await slow.promise;
        return PolledEndpoint.representationOf(trustBundle.pem, "application/x-pem-file");
      },
    };
    const enter = (seconds?: number) => seconds && { seconds, hold, leave: () => {} };
    const longPolls: LongPolls = Object.assign(Object.create(LongPolls.prototype), { enter });
    const app = new Hono().get(
      "/",
      createBundleEndpoint(ca.certificateAuthority, longPolls, format),
    );
    const older = app.request("/");
    await eventually(() => expect(writes).toBe(1));
    await taint();
    await ca.rotate();
    ca.pass(1);
    const newer = (await app.request("/")).headers.get("etag") ?? "";

    async function hold(look: () => Promise<boolean>): Promise<void> {
      slow.resolve();
      await older;
      await look();
    }
    const headers = { "if-none-match": newer, prefer: "wait=30" };
    expect((await app.request("/", { headers })).status).toBe(304);
  });

  test("shares one read of the store with all others", async () => {
    const answers = Array.from({ length: 500 }, () => wait());
    const before = ca.store.loads;
    await taint();
    await ca.rotate();
    ca.pass(1);
    const statuses = new Set((await Promise.all(answers)).map(({ status }) => status));
    expect([...statuses]).toEqual([200]);
    expect(ca.store.loads - before).toBeLessThan(600);
  });

  test("ends when its caller hangs up", async () => {
    const caller = new AbortController();
    const answer = wait("/bundle.pem", { signal: caller.signal });
    caller.abort();
    await answer;
  });

  test("gets 304 when the server ends, and later requests do not wait", async () => {
    const ending = new AbortController();
    const app = CaRoutes.create(ca.certificateAuthority, undefined, ending.signal);
    const answer = wait("/bundle.json", { app });
    ending.abort();
    const response = await answer;
    expect([response.status, response.headers.get("preference-applied")]).toEqual([304, "wait=30"]);
    const late = await wait("/bundle.json", { app });
    expect([late.status, late.headers.has("preference-applied")]).toEqual([304, false]);
  });
});

test("a CA with a BUNDLE_WAIT of zero holds no answer", async () => {
  ca = await startCa({ BUNDLE_WAIT: "0s" });
  await ca.found();
  etag = (await ca.app.request("/bundle.json")).headers.get("etag") ?? "";
  const response = await wait();
  expect([response.status, response.headers.has("preference-applied")]).toEqual([304, false]);
});

describe("the long polls under way", () => {
  const limits = { longestSeconds: 50, readSeconds: 1 };
  const at = (seconds: number): Date => new Date(1_700_000_000_000 + 1000 * seconds);
  const peerOf = ({ headers }: Request) => ({ address: headers.get("address") ?? undefined });
  const anonymous = new Request(origin);
  const fill = () => {
    const longPolls = new LongPolls(() => limits, peerOf);
    const places = Array.from({ length: 5000 }, () => longPolls.enter(50, at(0), anonymous));
    return { longPolls, places: places.filter((place) => place !== undefined) };
  };

  test("are bounded, and one may enter when another leaves", () => {
    const { longPolls, places } = fill();
    expect(places).toHaveLength(2000);
    expect(longPolls.enter(50, at(1), anonymous)).toBeUndefined();
    places[7]?.leave();
    expect(longPolls.enter(50, at(1), anonymous)?.seconds).toBe(50);
    expect(longPolls.enter(50, at(1), anonymous)).toBeUndefined();
  });

  test("are fewer for one address, which leaves places to the others", () => {
    const longPolls = new LongPolls(() => limits, peerOf);
    const enter = (address: string, now = at(0)) =>
      longPolls.enter(50, now, new Request(origin, { headers: { address } }));
    const places = Array.from({ length: 9000 }, () => enter("192.0.2.1")).filter(Boolean);
    expect(places).toHaveLength(500);
    const honest = Array.from({ length: 1000 }, (_, i) => enter(`198.51.${i % 100}.1`));
    expect(honest).not.toContain(undefined);
    places[7]?.leave();
    places[7]?.leave();
    expect(enter("192.0.2.1")?.seconds).toBe(50);
    expect(enter("192.0.2.1")).toBeUndefined();
    expect(enter("192.0.2.1", at(61))?.seconds).toBe(50);
  });

  test.each([
    ["one network has half of them", 1, 1000],
    ["eight networks leave a ninth of them", 8, 1778],
  ])("leave places to others, however many addresses ask: %s", (_, networks, most) => {
    const longPolls = new LongPolls(() => limits, peerOf);
    const enter = (address: string) =>
      longPolls.enter(50, at(0), new Request(origin, { headers: { address } }));
    const flood = Array.from({ length: 9000 }, (_, i) => enter(`203.0.${i % networks}.${i % 250}`));
    expect(flood.filter(Boolean)).toHaveLength(most);
    const honest = Array.from({ length: 100 }, (_, i) => enter(`198.51.${i}.1`));
    expect(honest).not.toContain(undefined);
  });

  test("do not count requests that the platform has dropped without notice", () => {
    const { longPolls } = fill();
    expect(longPolls.enter(50, at(59), anonymous)).toBeUndefined();
    expect(longPolls.enter(50, at(61), anonymous)?.seconds).toBe(50);
  });

  test("pass their turn on when their wait begins", async () => {
    let passed = 0;
    const yieldTurn = (): void => {
      passed++;
    };
    const longPolls = new LongPolls(
      () => limits,
      () => ({ yieldTurn }),
    );
    const place = longPolls.enter(50, at(0), anonymous);
    expect(passed).toBe(0);
    await place?.hold(() => expect.fail("its caller has gone"), AbortSignal.abort());
    expect(passed).toBe(1);
  });

  test("leave no listener at the end of their server behind", async () => {
    const { signal } = new AbortController();
    // The wait of a second ends before the next read is due.
    const longPolls = new LongPolls(() => ({ ...limits, readSeconds: 1000 }), peerOf, signal);
    await longPolls
      .enter(1, at(0), anonymous)
      ?.hold(async () => true, new AbortController().signal);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("last no longer than the server allows, which a reload may change", () => {
    let inForce = limits;
    const longPolls = new LongPolls(() => inForce, peerOf);
    const wishes = [undefined, 0, 1, 49, 51, Number.POSITIVE_INFINITY];
    const granted = wishes.map((wish) => longPolls.enter(wish, at(0), anonymous)?.seconds);
    expect(granted).toEqual([undefined, undefined, 1, 49, 50, 50]);
    inForce = { ...limits, longestSeconds: 20 };
    expect(longPolls.enter(50, at(0), anonymous)?.seconds).toBe(20);
  });

  test("do not begin while the platform can spare no connection", () => {
    const busy = new LongPolls(
      () => limits,
      () => ({ mayWait: () => false }),
    );
    expect(busy.enter(50, at(0), anonymous)).toBeUndefined();
  });

  test("are counted by the /64 of a host", () => {
    const longPolls = new LongPolls(() => limits, peerOf);
    const places = Array.from({ length: 600 }, (_, i) => {
      const headers = { address: `2001:db8::${i.toString(16)}` };
      return longPolls.enter(50, at(0), new Request(origin, { headers }));
    });
    expect(places.filter(Boolean)).toHaveLength(500);
  });
});

test.each<[string | undefined | null, number | undefined]>([
  ["wait=10", 10],
  ["respond-async, wait=10;foo", 10],
  ["wait=10, wait=20", 10],
  ["wait, wait=20", undefined],
  ["wait=-1", undefined],
  ['wait="10"', undefined],
  ["", undefined],
  [null, undefined],
])("the preference %j waits for %j seconds", (header, seconds) => {
  expect(parseWaitSeconds(header)).toBe(seconds);
});
