import { describe, expect, test } from "vitest";
import { LoadClock } from "../../src/ca/internal/load-clock.ts";
import type { StoredRecord } from "../../src/custody/authority-store.ts";
import { Statement } from "../../src/custody/statement.ts";
import type { SharedWork } from "../../src/foundation/shared-work.ts";
import {
  keks,
  later,
  loadAuthoritiesFrom,
  sealed,
  start,
} from "../testkit/ca/loaded-authorities.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";
import { clusterLocal } from "../testkit/ca/sealed-authorities.ts";

const times = { refreshSeconds: 60, surviveOutageSeconds: 600 };

/** A clock with a load in use that began at the start. */
function loadedClock(changes: Partial<typeof times> = {}): LoadClock {
  const clock = new LoadClock({ ...times, ...changes });
  clock.follow(start);
  clock.use(clock.begin());
  return clock;
}

/** Whether a store is due for a load when a request of this time comes. */
function isDueAt(clock: LoadClock, seconds: number): boolean {
  clock.follow(later(seconds));
  return clock.isDue;
}

describe("a store is due for a load", () => {
  test("from the first request on, while none is in use", () => {
    const clock = new LoadClock(times);
    expect(isDueAt(clock, 0)).toBe(true);
    clock.begin();
    expect(isDueAt(clock, 0)).toBe(true);
    expect(clock.serves(start)).toBe(false);
    expect(clock.inUse.number).toBe(0);
  });

  test.each([
    [0, false],
    [59.999, false],
    [60, true],
    [-60, false],
    [-60.001, true],
  ])("in the time of requests: %d seconds after the last one, %s", (seconds, isDue) => {
    expect(isDueAt(loadedClock(), seconds)).toBe(isDue);
  });

  test("once, while the load in use serves", () => {
    const clock = loadedClock();
    expect(isDueAt(clock, 60)).toBe(true);
    clock.begin();
    expect(clock.isDue).toBe(false);
    expect(isDueAt(clock, 120)).toBe(true);
  });

  test("not a second time while a load may still end, even if the refresh interval is shorter", () => {
    const clock = loadedClock({ refreshSeconds: 2 });
    expect(isDueAt(clock, 2)).toBe(true);
    clock.begin();
    expect(isDueAt(clock, 11.999)).toBe(false);
    expect(isDueAt(clock, 12)).toBe(true);
  });

  test("again as soon as the load in use is too old to serve, even while another is under way", () => {
    const clock = loadedClock({ refreshSeconds: 2, surviveOutageSeconds: 5 });
    expect(isDueAt(clock, 4)).toBe(true);
    clock.begin();
    expect(isDueAt(clock, 4.999)).toBe(false);
    expect(isDueAt(clock, 5.001)).toBe(true);
  });

  test.each(["use", "retry"] as const)(
    "no sooner by the %s of a lost load, while its replacement may still end",
    (end) => {
      const clock = loadedClock({ refreshSeconds: 2 });
      clock.follow(later(2));
      const lost = clock.begin();
      clock.follow(later(12));
      clock.begin();
      clock.follow(later(13));
      clock[end](lost);
      expect(isDueAt(clock, 21.999)).toBe(false);
      expect(isDueAt(clock, 22)).toBe(true);
    },
  );

  test("by the present clock, if a lost load ends after the clock was set back", () => {
    const clock = loadedClock({ refreshSeconds: 2 });
    clock.follow(later(500));
    const lost = clock.begin();
    clock.follow(later(510));
    clock.begin();
    clock.follow(start);
    clock.use(lost);
    expect(isDueAt(clock, 9.999)).toBe(false);
    expect(isDueAt(clock, 10)).toBe(true);
  });

  test("no sooner because a request has an older time", () => {
    const clock = loadedClock();
    expect(isDueAt(clock, 59)).toBe(false);
    expect(isDueAt(clock, 0)).toBe(false);
    expect(isDueAt(clock, 60)).toBe(true);
    expect(isDueAt(clock, 1)).toBe(true);
  });

  test("two seconds after a load that failed", () => {
    const clock = loadedClock();
    clock.follow(later(60));
    clock.retry(clock.begin());
    expect(isDueAt(clock, 61.999)).toBe(false);
    expect(isDueAt(clock, 62)).toBe(true);
  });

  test.each([
    [60, 2],
    [0.5, 0.5],
  ])(
    "with a refresh interval of %d seconds: %d seconds after a load in which nothing signs",
    (refresh, seconds) => {
      const clock = loadedClock({ refreshSeconds: refresh });
      clock.refreshSoon();
      expect(isDueAt(clock, seconds - 0.001)).toBe(false);
      expect(isDueAt(clock, seconds)).toBe(true);
    },
  );

  test("by the present clock, if the clock was set back during a load", () => {
    const clock = loadedClock();
    clock.follow(later(86_400));
    const load = clock.begin();
    clock.follow(start);
    clock.use(load);
    expect(clock.inUse).toEqual({ number: load.number, at: start });
    expect(isDueAt(clock, 60)).toBe(true);
  });
});

describe("a load in use", () => {
  test.each([
    [600, true],
    [600.001, false],
    [0, true],
    [-600, true],
    [-600.001, false],
  ])("serves a request of %d seconds after it: %s", (seconds, serves) => {
    const clock = loadedClock();
    clock.follow(later(seconds));
    expect(clock.serves(later(seconds))).toBe(serves);
  });

  test("serves the request that it began for, even when it is too old for later requests", () => {
    const clock = new LoadClock({ refreshSeconds: 0, surviveOutageSeconds: 0 });
    clock.follow(start);
    const load = clock.begin();
    clock.follow(later(1));
    clock.use(load);
    expect([0, 1].map((seconds) => clock.serves(later(seconds)))).toEqual([true, false]);
  });

  test("is replaced by a load that began later, and never by one that began earlier", () => {
    const clock = loadedClock();
    const [slow, quick] = [clock.begin(), clock.begin()];
    expect(clock.use(quick)).toBe(true);
    expect(clock.use(slow)).toBe(false);
    expect(clock.inUse).toEqual(quick);
    expect([slow, quick].map(({ number }) => number)).toEqual([2, 3]);
    expect(clock.begun).toBe(3);
  });
});

/** Loads overlap only when one counts as lost. Here each does at once. */
const unshared: SharedWork = { join: async (work) => work?.() };

/** Authorities of which each load ends when the test says so, with the records that it says. */
async function overlapping(loadTimes: typeof times) {
  const record = await sealed();
  const ends: ((records: readonly StoredRecord[]) => void)[] = [];
  const load = () => new Promise<readonly StoredRecord[]>((end) => ends.push(end));
  const store = { ...createMemoryStore(), load };
  const changes = { ...loadTimes, shareWork: () => unshared };
  const { authorities } = loadAuthoritiesFrom(store, keks, changes);
  return { record, ends, authorities };
}

test("overlapping loads serve every request, even if the first to begin ends last", async () => {
  const stale = { refreshSeconds: 0, surviveOutageSeconds: 0 };
  const { record, ends, authorities } = await overlapping(stale);
  // With its key open already, a load takes no longer than the store.
  const first = authorities.at(later(-0.001));
  ends.shift()?.([record]);
  await first;
  const answers = [authorities.at(start), authorities.at(later(0.001))];
  // Both ends come in one turn, the earlier request's last.
  for (const end of ends.toReversed()) end([record]);
  for (const answer of answers) {
    expect((await answer).issuer?.authority.id).toBe(record.id);
  }
});

test("a load that began before a taint does not undo the taint by ending last", async () => {
  const { record, ends, authorities } = await overlapping(times);
  const said = { id: record.id, taintedAt: start, retiresAt: start };
  const taint = await Statement.seal("taint", said, { trustDomain: clusterLocal, keks });
  const answers = [authorities.at(later(1)), authorities.at(later(2))];
  ends[1]?.([record, taint]);
  expect((await answers[1])?.issuer).toBeUndefined();
  ends[0]?.([record]);
  await answers[0];
  expect((await authorities.at(later(3))).issuer).toBeUndefined();
});
