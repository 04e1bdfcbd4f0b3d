import { Hono } from "hono";
import { beforeEach, describe, expect, test } from "vitest";
import { recordTaint } from "../../../src/ca/taint.ts";
import { parseWaitSeconds } from "../../../src/foundation/prefer.ts";
import { createTaint } from "../../../src/pki/authority/taint.ts";
import {
  type BundleFormat,
  createBundleEndpoint,
} from "../../../src/transport/http/bundle-endpoint.ts";
import { createLongPolls, type LongPolls } from "../../../src/transport/http/long-poll.ts";
import { createRoutes } from "../../../src/transport/http/routes.ts";
import { origin } from "../../contract/service-under-test.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { openStore, signerOf } from "../../testkit/ca/tainted-ca.ts";
import { eventually } from "../../testkit/eventually.ts";

let ca: RunningCa;
let etag: string;

beforeEach(async () => {
  ca = await startCa();
  await ca.found();
  etag = (await ca.app.request("/bundle.json")).headers.get("etag") ?? "";
});

function wait(path = "/bundle.json", { app = ca.app, signal = new AbortController().signal } = {}) {
  const headers = { "if-none-match": etag, prefer: "wait=30" };
  return app.fetch(new Request(`${origin}${path}`, { headers, signal }));
}

/** Puts another authority in the place of the one that signs, and lets a moment pass. */
async function taint(): Promise<void> {
  const id = (await signerOf(ca)) ?? "";
  const store = await openStore(ca.mint);
  const { phaseLengths } = ca.mint;
  await recordTaint(ca.mint, createTaint(store, id, "immediately", phaseLengths, ca.now()));
  ca.pass(1);
}

describe("one who waits for another trust bundle", () => {
  test("gets it as soon as it is there, and nobody may keep that answer", async () => {
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

  test("does not hear of the moment in which there is none", async () => {
    const answer = wait();
    await taint();
    await eventually(async () => expect((await ca.app.request("/bundle.json")).status).toBe(503));
    await ca.rotate();
    ca.pass(1);
    expect((await answer).status).toBe(200);
  });

  test("hears that the store cannot be read any more", async () => {
    const answer = wait();
    ca.store.outage = new Error("KV GET failed: 500");
    ca.pass(1);
    const response = await answer;
    expect(response.status).toBe(503);
    expect(response.headers.has("preference-applied")).toBe(false);
  });

  test("does not hear of an older one from a look that took its time", async () => {
    const slow = Promise.withResolvers<void>();
    let writes = 0;
    const format: BundleFormat = {
      contentType: "application/x-pem-file",
      write: async ({ trustBundle }) => {
        if (writes++ === 0) await slow.promise;
        return trustBundle.pem;
      },
    };
    const waits: LongPolls = {
      enter: (seconds) => (seconds === undefined ? undefined : { seconds, hold, leave: () => {} }),
    };
    const app = new Hono().get("/", createBundleEndpoint(ca.certificateAuthority, waits, format));
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

  test("is many, and one look at the store serves them all", async () => {
    const answers = Array.from({ length: 500 }, () => wait());
    const before = ca.store.loads;
    await taint();
    await ca.rotate();
    ca.pass(1);
    const statuses = new Set((await Promise.all(answers)).map(({ status }) => status));
    expect([...statuses]).toEqual([200]);
    expect(ca.store.loads - before).toBeLessThan(600);
  });

  test("keeps nothing running that has hung up", async () => {
    const caller = new AbortController();
    const answer = wait("/bundle.pem", { signal: caller.signal });
    caller.abort();
    await answer;
  });

  test("is sent away with what it knows when the server ends, and nobody waits after that", async () => {
    const ending = new AbortController();
    const app = createRoutes(ca.certificateAuthority, undefined, ending.signal);
    const answer = wait("/bundle.json", { app });
    ending.abort();
    const response = await answer;
    expect([response.status, response.headers.get("preference-applied")]).toEqual([304, "wait=30"]);
    const late = await wait("/bundle.json", { app });
    expect([late.status, late.headers.has("preference-applied")]).toEqual([304, false]);
  });
});

test("a CA that is told to hold no answer holds none", async () => {
  ca = await startCa({ BUNDLE_WAIT: "0s" });
  await ca.found();
  etag = (await ca.app.request("/bundle.json")).headers.get("etag") ?? "";
  const response = await wait();
  expect([response.status, response.headers.has("preference-applied")]).toEqual([304, false]);
});

describe("the places of those who wait", () => {
  const waiting = { longestSeconds: 50, lookSeconds: 1 };
  const at = (seconds: number): Date => new Date(1_700_000_000_000 + 1000 * seconds);
  const fill = () => {
    const waits = createLongPolls(waiting);
    const places = Array.from({ length: 5000 }, () => waits.enter(50, at(0)));
    return { waits, places: places.filter((place) => place !== undefined) };
  };

  test("are bounded, and free again when somebody leaves", () => {
    const { waits, places } = fill();
    expect(places).toHaveLength(2000);
    expect(waits.enter(50, at(1))).toBeUndefined();
    places[7]?.leave();
    expect(waits.enter(50, at(1))?.seconds).toBe(50);
    expect(waits.enter(50, at(1))).toBeUndefined();
  });

  test("are not lost to requests that the platform has dropped without a word", () => {
    const { waits } = fill();
    expect(waits.enter(50, at(59))).toBeUndefined();
    expect(waits.enter(50, at(61))?.seconds).toBe(50);
  });

  test("last no longer than the server wants", () => {
    const waits = createLongPolls(waiting);
    const wishes = [undefined, 0, 1, 49, 51, Number.POSITIVE_INFINITY];
    const granted = wishes.map((wish) => waits.enter(wish, at(0))?.seconds);
    expect(granted).toEqual([undefined, undefined, 1, 49, 50, 50]);
  });
});

test.each<[string | undefined | null, number | undefined]>([
  ["wait=10", 10],
  ["WAIT = 10", 10],
  ["respond-async, wait=10;foo", 10],
  ["wait=10, wait=20", 10],
  ["wait, wait=20", undefined],
  ["wait=-1", undefined],
  ["wait=10s", undefined],
  ['wait="10"', undefined],
  ["", undefined],
  [undefined, undefined],
  [null, undefined],
])("the preference %j waits for %j seconds", (header, seconds) => {
  expect(parseWaitSeconds(header)).toBe(seconds);
});
