import { syncBuiltinESMExports } from "node:module";
import v8 from "node:v8";
import { afterEach, expect, test, vi } from "vitest";
import { createGuard, type Guard } from "../../../src/node/limits/guard.ts";
import { usualLimits } from "../../../src/node/limits/limits.ts";
import { memoryShortage, memoryToHave } from "../../../src/node/limits/memory.ts";
import { openPort } from "../../testkit/network/plaintext-port.ts";

const mebibyte = 1024 * 1024;

afterEach(() => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
});

test("memory is measured anew after 50 ms, and is short beyond the limit, or with a full heap", () => {
  let now = 0;
  const rss = vi.spyOn(process.memoryUsage, "rss").mockReturnValue(100 * mebibyte);
  const isShort = memoryShortage({ ...usualLimits, memory: 100 }, () => now);
  expect(isShort()).toBe(false);
  rss.mockReturnValue(100 * mebibyte + 1);
  now = 49;
  expect(isShort()).toBe(false);
  now = 50;
  expect(isShort()).toBe(true);
  rss.mockReturnValue(mebibyte);
  now = 100;
  expect(isShort()).toBe(false);
  const statistics = { ...v8.getHeapStatistics(), used_heap_size: 93, heap_size_limit: 100 };
  vi.spyOn(v8, "getHeapStatistics").mockReturnValue(statistics);
  syncBuiltinESMExports();
  now = 150;
  expect(isShort()).toBe(true);
});

/**
 * Asks a port for so many octets. Without a guard, it is one of monitoring.
 *
 * @returns The status; `undefined` for an answer that is cut.
 */
async function ask(octets: number, guard?: Guard): Promise<number | undefined> {
  const { port } = await openPort(
    { fetch: async () => new Response(new Uint8Array(octets)) },
    guard,
  );
  const asking = fetch(`http://127.0.0.1:${port}`);
  const read = asking.then((response) => response.arrayBuffer().then(() => response.status));
  return read.catch(() => undefined);
}

test.each([
  [0, 8, 8],
  [2, 8, 2],
  [2 ** 63, 8, 8],
])("of a limit of %d and a machine of %d octets, a process may have %d", (limit, machine, has) => {
  expect(memoryToHave(limit, machine)).toBe(has);
});

test("a port of monitoring answers while the process holds too much memory for other callers", async () => {
  vi.spyOn(process.memoryUsage, "rss").mockReturnValue(Number.MAX_SAFE_INTEGER);
  expect(await ask(1, createGuard(usualLimits))).toBe(503);
  expect(await ask(1)).toBe(200);
});

test("a port of monitoring holds four mebibytes of answers at most", async () => {
  expect(await ask(3 * mebibyte)).toBe(200);
  expect(await ask(5 * mebibyte)).toBeUndefined();
});
