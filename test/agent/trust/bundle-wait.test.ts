import { expect, test } from "vitest";
import { BundleWait } from "../../../src/agent/trust/bundle-wait.ts";

const now = new Date("2026-11-21T12:00:00Z");

/** After how many seconds the next request goes out. */
function pauseAfter(
  wait: BundleWait,
  heldSeconds: number,
  grantedSeconds = 50,
  isNews = false,
): number {
  const next = wait.answered({ grantedSeconds, heldSeconds, isNews }, 0, now);
  return (next.getTime() - now.getTime()) / 1000;
}

test("answers that were held are asked for again after a second", () => {
  const wait = new BundleWait(86_400);
  expect([50, 12, 50, 6].map((held) => pauseAfter(wait, held))).toEqual([1, 1, 1, 1]);
});

test("an endpoint that says that it waits, and does not, is asked ever more seldom", () => {
  const wait = new BundleWait(86_400);
  const pauses = Array.from({ length: 10 }, () => pauseAfter(wait, 0.01));
  expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 150, 150]);
  expect(pauseAfter(wait, 50)).toBe(1);
});

test("one bundle soon after another is no endpoint that does not wait", () => {
  const wait = new BundleWait(86_400);
  const pauses = Array.from({ length: 10 }, () => pauseAfter(wait, 0.01, 50, true));
  expect(new Set(pauses)).toEqual(new Set([1]));
});

test("a short wait that was granted is one", () => {
  const wait = new BundleWait(1);
  expect(wait.askedSeconds).toBe(1);
  expect(pauseAfter(wait, 0.9, 1)).toBe(1);
  expect(pauseAfter(wait, 0.9, 1)).toBe(1);
});

test("an answer may take as long as the endpoint has said", () => {
  const wait = new BundleWait(86_400);
  expect([wait.askedSeconds, wait.expectedSeconds]).toEqual([300, 300]);
  pauseAfter(wait, 0);
  expect([wait.askedSeconds, wait.expectedSeconds]).toEqual([300, 50]);
});

test("a wait that something cuts becomes shorter, and slowly longer again", () => {
  const wait = new BundleWait(86_400);
  wait.cut(15);
  expect(wait.askedSeconds).toBe(7);
  for (let i = 0; i < 40; i++) pauseAfter(wait, 7, 7);
  expect(wait.askedSeconds).toBe(11);
  for (let i = 0; i < 10; i++) wait.cut(11);
  expect(wait.askedSeconds).toBe(5);
});

test("an endpoint that is away has cut nothing", () => {
  const wait = new BundleWait(86_400);
  wait.cut(0.1);
  expect(wait.askedSeconds).toBe(300);
});

test("a wait is never longer than looks may be apart", () => {
  const wait = new BundleWait(2);
  wait.cut(60);
  expect(wait.askedSeconds).toBe(2);
});

test("nobody is asked to wait for less than a second", () => {
  expect(new BundleWait(0.5).askedSeconds).toBe(0);
});
