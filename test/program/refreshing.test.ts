import { expect, test } from "vitest";
import { createRefreshing } from "../../src/program/refreshing.ts";

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
  const next = kept(at(1));
  fetches.at(-1)?.resolve("value");
  expect([await next, fetches.length]).toEqual(["value", 2]);
});
