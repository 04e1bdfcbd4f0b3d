import { expect, test } from "vitest";
import { recur } from "../../src/program/recurrence.ts";
import { eventually } from "../testkit/time/eventually.ts";
import { createVirtualTime } from "../testkit/time/virtual-time.ts";

const ignore = (): void => {};

test("works at once, and again after the pause", async () => {
  const time = createVirtualTime(new Date());
  let works = 0;
  const { end } = recur(async () => void works++, 30, ignore, time.pause);
  expect(works).toBe(1);
  await eventually(() => expect(time.pauses()).toEqual([30_000]));
  time.pass(29);
  expect(time.pauses()).toEqual([30_000]);
  time.pass(1);
  await eventually(() => expect(works).toBe(2));
  await end();
});

test("waits for as long as the work returns", async () => {
  const time = createVirtualTime(new Date());
  const { end } = recur(async () => 7, 30, ignore, time.pause);
  await eventually(() => expect(time.pauses()).toEqual([7000]));
  await end();
});

test("works again after a failure, and reports it", async () => {
  const time = createVirtualTime(new Date());
  const failures: unknown[] = [];
  const fault = new Error("no");
  const { end } = recur(
    async (): Promise<void> => {
      throw fault;
    },
    30,
    (error) => failures.push(error),
    time.pause,
  );
  await eventually(() => expect(time.pauses()).toEqual([30_000]));
  time.pass(30);
  await eventually(() => expect(failures).toEqual([fault, fault]));
  await end();
});

test("never works twice at once, and ends when the work has", async () => {
  const time = createVirtualTime(new Date());
  const { promise: slow, resolve: finish } = Promise.withResolvers<void>();
  let works = 0;
  const work = (): Promise<void> => {
    works++;
    return slow;
  };
  const { end } = recur(work, 1, ignore, time.pause);
  time.pass(60);
  const ended = end();
  finish();
  await ended;
  expect([works, time.pauses()]).toEqual([1, []]);
});
