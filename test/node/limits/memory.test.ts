import { expect, onTestFinished, test } from "vitest";
import { createGuard } from "../../../src/node/limits/guard.ts";
import { type Limit, usualLimits } from "../../../src/node/limits/limits.ts";

const mebibyte = 1024 * 1024;

test("a request is refused as soon as the process holds too much memory, before the next check of all requests", () => {
  const reached: Limit[] = [];
  const memory = Math.ceil(process.memoryUsage.rss() / mebibyte) + 100;
  const guard = createGuard({ ...usualLimits, memory }, (limit) => reached.push(limit));
  onTestFinished(guard.end);
  const begin = () =>
    guard.exchanges.begin({
      address: "192.0.2.1",
      isReceiving: () => false,
      unsentOctets: () => 0,
      abort: () => {},
      refuse: () => {},
      isGone: () => false,
    });
  expect(begin()).toBeDefined();
  // No timer can fire meanwhile, because nothing yields.
  const flood = Buffer.alloc(300 * mebibyte, 1);
  for (const until = performance.now() + 100; performance.now() < until; );
  expect(begin()).toBeUndefined();
  expect(reached).toEqual(["memory"]);
  expect(flood.at(-1)).toBe(1);
});
