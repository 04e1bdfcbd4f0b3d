import { expect, test } from "vitest";
import { usualLimits } from "../../../src/node/limits/limits.ts";
import { Collection, memoryShortage } from "../../../src/node/limits/memory.ts";

const mebibyte = 1024 * 1024;

/** A process that holds 100 MiB after each collection, with a heap of so many at most. */
function start(heapLimit = 84) {
  const state = { held: 100 * mebibyte, collections: 0, worked: 0, external: 0, live: 0, brief: 0 };
  const collection = new Collection({
    held: () => state.held,
    heapLimit: () => heapLimit * mebibyte,
    worked: () => state.worked,
    collect: () => {
      state.collections++;
      state.held = 100 * mebibyte;
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

test("work that takes back what a collection has freed is not collected every five seconds", () => {
  const { state, pass } = start();
  for (let at = 5000; at < 60_000; at += 5000) pass(at, at + 4000, 0, 109 * mebibyte);
  expect(state.collections).toBe(2);
});

test("memory that grows in a calm process causes at most one collection in five seconds", () => {
  const { state, pass } = start();
  pass(1000, 40_000, 0, 150 * mebibyte);
  expect(state.collections).toBe(8);
});

test("a collection that has freed much is followed by another, which frees native memory of what it collected", () => {
  const { state, pass } = start();
  state.held = 150 * mebibyte;
  pass(5000, 60_000, 0);
  expect(state.collections).toBe(2);
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

test("fields of requests are collected in a busy process once eight mebibytes of them have come, four times a second", () => {
  const { state, collection } = start();
  let now = 0;
  const isShort = memoryShortage(usualLimits, () => now, collection);
  const measure = (mebibytes: number): number => {
    state.external = mebibytes * mebibyte;
    now += 125;
    isShort();
    return state.brief;
  };
  expect([12, 19, 10, 17].map(measure)).toEqual([0, 0, 0, 0]);
  state.live = 11 * mebibyte;
  expect([18, 18, 19, 11, 18].map(measure)).toEqual([1, 1, 2, 2, 2]);
  expect([19, 19, 19, 19].map(measure)).toEqual([3, 3, 4, 4]);
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
