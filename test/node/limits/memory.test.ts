import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { listenInPlaintext } from "../../../src/node/http/listener.ts";
import { createGuard, type Guard } from "../../../src/node/limits/guard.ts";
import { type Limit, usualLimits } from "../../../src/node/limits/limits.ts";
import { memoryToHave } from "../../../src/node/limits/memory.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";

const mebibyte = 1024 * 1024;

afterEach(() => void vi.restoreAllMocks());

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

/**
 * Asks a port for so many octets. Without a guard, it is one of monitoring.
 *
 * @returns The status; `undefined` for an answer that is cut.
 */
async function ask(octets: number, guard?: Guard): Promise<number | undefined> {
  const answer = async (): Promise<Response> => new Response(new Uint8Array(octets));
  const routes = { rpcs: new Map(), fetch: answer, log: createEventRecorder() };
  const listener = await listenInPlaintext(routes, { host: "127.0.0.1", port: 0 }, guard);
  onTestFinished(() => listener.close(0));
  const asking = fetch(`http://127.0.0.1:${listener.address.port}`);
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
  const guard = createGuard(usualLimits);
  onTestFinished(guard.end);
  expect(await ask(1, guard)).toBe(503);
  expect(await ask(1)).toBe(200);
});

test("a port of monitoring holds four mebibytes of answers at most", async () => {
  expect(await ask(3 * mebibyte)).toBe(200);
  expect(await ask(5 * mebibyte)).toBeUndefined();
});
