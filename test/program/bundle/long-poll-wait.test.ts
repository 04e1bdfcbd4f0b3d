import { expect, test } from "vitest";
import { LongPollWait } from "../../../src/program/bundle/internal/long-poll-wait.ts";

const now = new Date("2026-11-21T12:00:00Z");

/** The seconds until the next request. */
function pauseAfter(
  wait: LongPollWait,
  heldSeconds: number,
  grantedSeconds = 50,
  isChanged = false,
): number {
  const next = wait.answered({ grantedSeconds, heldSeconds, isChanged }, 0, now);
  return (next.getTime() - now.getTime()) / 1000;
}

test("a held answer is followed by a request after a second", () => {
  const wait = new LongPollWait(86_400);
  expect([50, 12, 50, 6].map((held) => pauseAfter(wait, held))).toEqual([1, 1, 1, 1]);
});

test("an endpoint that grants a wait and does not hold its answers is asked ever more seldom", () => {
  const wait = new LongPollWait(86_400);
  const pauses = Array.from({ length: 10 }, () => pauseAfter(wait, 0.01));
  expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 150, 150]);
  expect(pauseAfter(wait, 50)).toBe(1);
});

test("a changed bundle may come before the wait is over", () => {
  const wait = new LongPollWait(86_400);
  const pauses = Array.from({ length: 10 }, () => pauseAfter(wait, 0.01, 50, true));
  expect(new Set(pauses)).toEqual(new Set([1]));
});

test("a short wait counts if it was granted", () => {
  const wait = new LongPollWait(1);
  expect(wait.requestedSeconds).toBe(1);
  expect(pauseAfter(wait, 0.9, 1)).toBe(1);
  expect(pauseAfter(wait, 0.9, 1)).toBe(1);
});

test("an answer may take as long as the endpoint has granted", () => {
  const wait = new LongPollWait(86_400);
  expect([wait.requestedSeconds, wait.expectedSeconds]).toEqual([300, 300]);
  pauseAfter(wait, 0);
  expect([wait.requestedSeconds, wait.expectedSeconds]).toEqual([300, 50]);
});

test("a wait that was cut becomes shorter, and slowly longer again", () => {
  const wait = new LongPollWait(86_400);
  wait.cut(15);
  expect(wait.requestedSeconds).toBe(7);
  for (let i = 0; i < 40; i++) pauseAfter(wait, 7, 7);
  expect(wait.requestedSeconds).toBe(11);
  for (let i = 0; i < 10; i++) wait.cut(11);
  expect(wait.requestedSeconds).toBe(5);
});

test("an unreachable endpoint does not shorten the wait", () => {
  const wait = new LongPollWait(86_400);
  wait.cut(0.1);
  expect(wait.requestedSeconds).toBe(300);
});

test("a wait is never longer than the longest refresh", () => {
  const wait = new LongPollWait(2);
  wait.cut(60);
  expect(wait.requestedSeconds).toBe(2);
});

test("no endpoint is asked to wait for less than a second", () => {
  expect(new LongPollWait(0.5).requestedSeconds).toBe(0);
});
