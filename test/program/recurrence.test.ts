import { expect, test } from "vitest";
import { createRefreshing } from "../../src/node/gateway/refreshing.ts";
import { Recurrence } from "../../src/program/recurrence.ts";
import { eventually } from "../testkit/time/eventually.ts";
import { createVirtualTime } from "../testkit/time/virtual-time.ts";

const ignore = (): void => {};

test("works at once, and again after the pause", async () => {
  const time = createVirtualTime(new Date());
  let works = 0;
  const { end } = Recurrence.start(async () => void works++, 30, ignore, time.pause);
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
  const { end } = Recurrence.start(async () => 7, 30, ignore, time.pause);
  await eventually(() => expect(time.pauses()).toEqual([7000]));
  await end();
});

test("works again after a failure, and reports it", async () => {
  const time = createVirtualTime(new Date());
  const failures: unknown[] = [];
  const fault = new Error("no");
  const { end } = Recurrence.start(
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
  const { end } = Recurrence.start(work, 1, ignore, time.pause);
  time.pass(60);
  const ended = end();
  finish();
  await ended;
  expect([works, time.pauses()]).toEqual([1, []]);
});

const at = (seconds: number): Date => new Date(1_800_000_000_000 + 1000 * seconds);

/** A value that is kept for ten seconds, and fetched when the test says so. */
function keep() {
  const fetches: PromiseWithResolvers<string>[] = [];
  const failures: unknown[] = [];
  const kept = createRefreshing({
    fetch: () => {
      const fetching = Promise.withResolvers<string>();
      fetches.push(fetching);
      return fetching.promise;
    },
    dueAt: (_, now) => new Date(now.getTime() + 10_000),
    failed: (error) => failures.push(error),
  });
  return { kept, fetches, failures };
}

test("one fetch serves all concurrent callers, each time that it is due", async () => {
  const { kept, fetches } = keep();
  for (const [index, seconds] of [0, 10, 20].entries()) {
    const asked = Array.from({ length: 100 }, () => kept(at(seconds)));
    expect(fetches).toHaveLength(index + 1);
    fetches[index]?.resolve(`value ${index}`);
    expect(new Set(await Promise.all(asked))).toEqual(new Set([`value ${index}`]));
  }
});

test("a clock that was set back has the value fetched again at once, and then no more", async () => {
  const { kept, fetches } = keep();
  const first = kept(at(0));
  fetches[0]?.resolve("of the future");
  await first;
  expect(await kept(at(-30))).toBe("of the future");
  const asked = kept(at(-3600));
  fetches[1]?.resolve("of now");
  expect(await asked).toBe("of now");
  expect([await kept(at(-3600)), fetches.length]).toEqual(["of now", 2]);
});

test("a failed fetch is one failure for all, and the last value serves", async () => {
  const { kept, fetches, failures } = keep();
  const first = kept(at(0));
  fetches[0]?.resolve("value");
  await first;
  const asked = [kept(at(10)), kept(at(10)), kept(at(10))];
  for (const { reject } of fetches.slice(1)) reject(new Error("away"));
  expect(await Promise.all(asked)).toEqual(["value", "value", "value"]);
  expect(failures).toHaveLength(1);
});

test("without a value all callers are refused, and the next one fetches again", async () => {
  const { kept, fetches } = keep();
  const asked = [kept(at(0)), kept(at(0))];
  for (const { reject } of fetches) reject(new Error("away"));
  for (const each of asked) await expect(each).rejects.toThrow("away");
  const next = kept(at(0.25));
  fetches.at(-1)?.resolve("value");
  expect([await next, fetches.length]).toEqual(["value", 2]);
});

test.each([true, false])(
  "a clock that was set back after a failure ends its pause (with a value: %s)",
  async (has) => {
    const { kept, fetches } = keep();
    if (has) {
      const first = kept(at(-10));
      fetches[0]?.resolve("value");
      await first;
    }
    const failed = kept(at(0)).catch(() => "none");
    fetches.at(-1)?.reject(new Error("away"));
    expect(await failed).toBe(has ? "value" : "none");
    const next = kept(at(-3600));
    fetches.at(-1)?.resolve("of now");
    expect(await next).toBe("of now");
  },
);

test("the pauses between failures begin anew after a success", async () => {
  const { kept, fetches } = keep();
  const fetch = async (seconds: number, value?: string) => {
    const asked = kept(at(seconds)).catch(() => "none");
    if (value) fetches.at(-1)?.resolve(value);
    else fetches.at(-1)?.reject(new Error("away"));
    await asked;
  };
  for (let hours = 1; hours <= 20; hours++) await fetch(3600 * hours);
  await fetch(21 * 3600, "value");
  await fetch(22 * 3600);
  await fetch(22 * 3600 + 0.25, "next");
  expect(fetches).toHaveLength(23);
});
