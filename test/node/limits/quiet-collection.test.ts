import { expect, test } from "vitest";
import { QuietCollection } from "../../../src/node/limits/guard.ts";

const mebibyte = 1024 * 1024;

/** A process that holds 100 MiB after each collection. */
function start() {
  const state = { held: 100 * mebibyte, collections: 0 };
  const collection = new QuietCollection({
    held: () => state.held,
    collect: () => {
      state.collections++;
      state.held = 100 * mebibyte;
    },
  });
  return { state, collection };
}

test("garbage is collected once no request has begun for five seconds", () => {
  const { state, collection } = start();
  collection.sweep(5000, 9_999);
  expect(state.collections).toBe(0);
  collection.sweep(5000, 10_000);
  expect(state.collections).toBe(1);
});

test("a process that has taken little memory since the last collection is not collected again", () => {
  const { state, collection } = start();
  collection.sweep(0, 10_000);
  state.held = 107 * mebibyte;
  collection.sweep(0, 60_000);
  expect(state.collections).toBe(1);
  state.held = 108 * mebibyte;
  collection.sweep(0, 60_000);
  expect(state.collections).toBe(2);
});

test("memory that grows without requests causes at most one collection in five seconds", () => {
  const { state, collection } = start();
  for (let now = 1000; now <= 40_000; now += 1000) {
    state.held = 150 * mebibyte;
    collection.sweep(0, now);
  }
  expect(state.collections).toBe(8);
});

test("a collection that has freed much is followed by another, which frees native memory of what it collected", () => {
  const { state, collection } = start();
  state.held = 150 * mebibyte;
  for (let now = 10_000; now <= 60_000; now += 1000) collection.sweep(0, now);
  expect(state.collections).toBe(2);
});
