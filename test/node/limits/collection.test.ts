import { expect, test } from "vitest";
import { usualLimits } from "../../../src/node/limits/limits.ts";
import { Collection, memoryShortage } from "../../../src/node/limits/memory.ts";

const mebibyte = 1024 * 1024;

/** A process that holds 100 MiB after each collection at first, with a heap of so many at most. */
function start(heapLimit = 84) {
  const state = {
    held: 100 * mebibyte,
    afterCollection: 100 * mebibyte,
    collections: 0,
    worked: 0,
    external: 0,
    live: 0,
    brief: 0,
  };
  const collection = new Collection({
    held: () => state.held,
    heapLimit: () => heapLimit * mebibyte,
    worked: () => state.worked,
    collect: () => {
      state.collections++;
      state.held = state.afterCollection;
    },
    external: () => state.external,
    collectBriefly: () => {
      state.brief++;
      state.external = state.live;
    },
  });
  /** Lets seconds pass, in each of which the process works for so many milliseconds. */
  const pass = (from: number, to: number, busyMilliseconds: number, held?: number): void => {
    for (let now = from; now <= to; now += 1000) {
      state.worked += busyMilliseconds;
      state.held = held ?? state.held;
      collection.sweep(now);
    }
  };
  return { state, collection, pass };
}

test("garbage is collected once the process has not been busy for five seconds, even while callers call", () => {
  const { state, pass } = start();
  pass(1000, 5000, 250);
  pass(6000, 9000, 100);
  expect(state.collections).toBe(0);
  pass(10_000, 10_000, 100);
  expect(state.collections).toBe(1);
});

test.each([
  { heapLimit: 84, ordinary: 109 },
  { heapLimit: 304, ordinary: 163 },
  { heapLimit: 4000, ordinary: 163 },
])(
  "what ordinary work takes of a heap of $heapLimit MiB is not collected again",
  ({ heapLimit, ordinary }) => {
    const { state, pass } = start(heapLimit);
    pass(1000, 10_000, 0);
    pass(11_000, 60_000, 0, ordinary * mebibyte);
    expect(state.collections).toBe(1);
    pass(61_000, 61_000, 0, (ordinary + 1) * mebibyte);
    expect(state.collections).toBe(2);
  },
);

test("what ordinary work takes of a large heap is collected every ten minutes", () => {
  const { state, pass } = start(304);
  pass(1000, 5000, 0);
  pass(6000, 599_000, 900, 163 * mebibyte);
  pass(600_000, 604_000, 0);
  expect(state.collections).toBe(1);
  pass(605_000, 605_000, 0);
  expect(state).toMatchObject({ collections: 2, held: 100 * mebibyte });
});

test("a calm process that needs much more than before is collected after 5 s, 10 s and so on to 10 minutes", () => {
  const { state, pass } = start();
  pass(1000, 5000, 0);
  state.afterCollection = 150 * mebibyte;
  const collectedAt: number[] = [];
  for (let now = 6000; now < 3_000_000; now += 1000) {
    const before = state.collections;
    pass(now, now, 0, 150 * mebibyte);
    if (state.collections > before) collectedAt.push(now / 1000);
  }
  expect(collectedAt).toEqual([15, 35, 75, 155, 315, 635, 1235, 1835, 2435]);
});

test.each([
  { then: "a busy spell", busyMilliseconds: 900, held: 150 },
  { then: "less memory", busyMilliseconds: 0, held: 100 },
])("after $then a process is collected five seconds later again", ({ busyMilliseconds, held }) => {
  const { state, pass } = start();
  pass(1000, 5000, 0);
  state.afterCollection = 150 * mebibyte;
  pass(6000, 160_000, 0, 150 * mebibyte);
  const before = state.collections;
  pass(161_000, 320_000, busyMilliseconds, held * mebibyte);
  pass(321_000, 326_000, 0, 150 * mebibyte);
  expect(state.collections).toBe(before + 1);
});

test("what a collection leaves that comes amidst a quiet flood is collected after the flood", () => {
  const { state, pass } = start();
  pass(1000, 5000, 0);
  state.afterCollection = 125 * mebibyte;
  pass(6000, 15_000, 0, 130 * mebibyte);
  expect(state.collections).toBe(2);
  state.afterCollection = 100 * mebibyte;
  pass(16_000, 35_000, 0);
  expect(state).toMatchObject({ collections: 3, held: 100 * mebibyte });
});

test("a process that is short of memory is collected at once, and in five seconds again if that was of no use", () => {
  const { state, collection } = start();
  state.held = 150 * mebibyte;
  expect(collection.relieve(0)).toBe(true);
  expect(collection.relieve(999)).toBe(false);
  expect(collection.relieve(1000)).toBe(true);
  expect(collection.relieve(5999)).toBe(false);
  expect(collection.relieve(6000)).toBe(true);
  expect(state.collections).toBe(3);
});

test("fields of requests are collected in a busy process once 8 MiB of them have come, or 4 MiB at once again", () => {
  const { state, collection } = start();
  let now = 0;
  const isShort = memoryShortage(usualLimits, () => now, collection);
  const measure = (milliseconds: number, mebibytes: number): number => {
    state.external = mebibytes * mebibyte;
    now += milliseconds;
    isShort();
    return state.brief;
  };
  expect([12, 19, 10, 17].map((each) => measure(125, each))).toEqual([0, 0, 0, 0]);
  state.live = 11 * mebibyte;
  expect(measure(125, 18)).toBe(1);
  expect(measure(99, 19)).toBe(1);
  expect(measure(100, 14)).toBe(1);
  expect(measure(100, 15)).toBe(2);
  expect(measure(300, 18)).toBe(2);
  expect(measure(300, 19)).toBe(3);
  expect(state.collections).toBe(0);
});

test("a request is not refused for the garbage of others: memory is measured again after a collection", () => {
  const limits = { ...usualLimits, memory: 1 };
  const relieve = (): boolean => {
    limits.memory = 1_000_000;
    return true;
  };
  expect(memoryShortage(limits, () => 0, { relieve, dropExternal: () => {} })()).toBe(false);
  expect(memoryShortage({ ...limits, memory: 1 }, () => 0)()).toBe(true);
});
