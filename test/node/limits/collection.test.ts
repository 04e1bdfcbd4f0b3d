import { expect, test } from "vitest";
import { usualLimits } from "../../../src/node/limits/limits.ts";
import { Collection, memoryShortage } from "../../../src/node/limits/memory.ts";

const mebibyte = 1024 * 1024;

/** A process that holds 100 MiB after each collection. */
function start() {
  const state = { held: 100 * mebibyte, collections: 0, external: 0, live: 0, brief: 0 };
  const collection = new Collection({
    held: () => state.held,
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
  return { state, collection };
}

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
