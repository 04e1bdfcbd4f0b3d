import { describe, expect, test } from "vitest";
import type { Authorities } from "../../src/ca/authorities.ts";
import { WorkSharing } from "../../src/foundation/shared-work.ts";
import { sharePromises } from "../../src/node/limits/promise-sharing.ts";
import {
  keks,
  later,
  loadAuthoritiesFrom,
  sealed,
  start,
} from "../testkit/ca/loaded-authorities.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";
import { refusalOf } from "../testkit/refusal.ts";

const surviveOutageSeconds = 60;

const record = await sealed();

/** Authorities whose store answers when the test lets it, and counts. */
function slowAuthorities(shareWork: WorkSharing) {
  const store = createMemoryStore(record);
  let gate = Promise.resolve();
  const load = () => gate.then(() => store.load());
  const changes = { refreshSeconds: 2, surviveOutageSeconds, shareWork };
  const { authorities } = loadAuthoritiesFrom({ ...store, load }, keks, changes);
  const hold = (): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    return resolve;
  };
  return { authorities, store, hold };
}

const signersAt = async (authorities: Authorities, times: readonly Date[]) => {
  const views = await Promise.all(times.map(async (now) => authorities.at(now)));
  return new Set(views.map(({ issuer }) => issuer?.authority.id));
};

const ways: [string, WorkSharing][] = [
  ["promises", sharePromises],
  ["polling", WorkSharing.polling(() => new Date())],
];

describe.each(ways)("two thousand requests at once, with work shared by %s", (_, shareWork) => {
  const all = Array.from({ length: 2000 });

  test("load a store once when none has loaded it before", async () => {
    const { authorities, store, hold } = slowAuthorities(shareWork);
    const release = hold();
    const signers = signersAt(authorities, all.fill(start) as Date[]);
    release();
    expect(await signers).toEqual(new Set([record.id]));
    expect(store.loads).toBe(1);
  });

  test("load it once more when the last load is too old to serve", async () => {
    const { authorities, store, hold } = slowAuthorities(shareWork);
    await authorities.at(start);
    const release = hold();
    const signers = signersAt(
      authorities,
      all.map(() => later(surviveOutageSeconds + 1)),
    );
    release();
    expect(await signers).toEqual(new Set([record.id]));
    expect(store.loads).toBe(2);
  });

  test("from a loop that had stalled for three minutes load it twice", async () => {
    const { authorities, store, hold } = slowAuthorities(shareWork);
    await authorities.at(start);
    const release = hold();
    const times = all.map((__, i) => later(surviveOutageSeconds + 1 + (i % 180)));
    const signers = signersAt(authorities, times);
    release();
    expect(await signers).toEqual(new Set([record.id]));
    expect(store.loads).toBeLessThanOrEqual(3);
  });

  test("load it once for the latest request, and not again for requests with older times", async () => {
    const { authorities, store } = slowAuthorities(shareWork);
    const times = all.map((__, i) => later(i % 61)).toReversed();
    await authorities.at(later(60));
    expect(await signersAt(authorities, times)).toEqual(new Set([record.id]));
    expect(store.loads).toBe(1);
  });

  test("ask a store that is down twice, and are refused", async () => {
    const { authorities, store, hold } = slowAuthorities(shareWork);
    await authorities.at(start);
    store.outage = new Error("down");
    const release = hold();
    const stalled = all.map((__, i) => later(surviveOutageSeconds + 1 + i));
    const refusals = stalled.map((now) => refusalOf(async () => authorities.at(now)));
    release();
    const reasons = (await Promise.all(refusals)).map(({ reason }) => reason);
    expect(new Set(reasons)).toEqual(new Set(["store-unreachable"]));
    expect(store.loads).toBeLessThanOrEqual(3);
  });
});

test("requests beyond the places that wait for a load are refused, and served after it", async () => {
  const { authorities, store, hold } = slowAuthorities(sharePromises);
  const release = hold();
  const served = Array.from({ length: 5001 }, async () => authorities.at(start));
  const refused = Array.from({ length: 100 }, () => refusalOf(async () => authorities.at(start)));
  for (const refusal of refused) expect(await refusal).toEqual({ reason: "too-many-waiting" });
  release();
  await Promise.all(served);
  expect((await authorities.at(start)).issuer?.authority.id).toBe(record.id);
  expect(store.loads).toBe(1);
});

test("requests in any order of their times share one view", async () => {
  const { authorities } = slowAuthorities(sharePromises);
  const view = await authorities.at(later(1));
  for (const second of [0, 1.5, 0.5, 1.9]) expect(authorities.at(later(second))).toBe(view);
});
