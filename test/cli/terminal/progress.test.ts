import { expect, test } from "vitest";
import { withProgress } from "../../../src/cli/terminal/progress.ts";

/** A stream that tells when it is written to for the first time. */
function createStream(isTTY: boolean) {
  const written: string[] = [];
  const first = Promise.withResolvers<void>();
  const write = (text: string): void => {
    written.push(text);
    first.resolve();
  };
  return { isTTY, write, written, first: first.promise };
}

test("a line elsewhere says once what takes long, and the result is the work's", async () => {
  const stream = createStream(false);
  const work = async () => {
    await stream.first;
    return "done";
  };
  expect(await withProgress("reading", work, { stream, afterMilliseconds: 0 })).toBe("done");
  expect(stream.written).toEqual(["rampart: still reading\n"]);
});

test("a terminal's line counts, and is gone when the work is done", async () => {
  const stream = createStream(true);
  await withProgress("reading", () => stream.first, { stream, afterMilliseconds: 0, json: true });
  expect(stream.written[0]).toBe("\r\u001b[Kstill reading (0 s)\r");
  expect(stream.written.at(-1)).toBe("\r\u001b[K");
});

test("the line is gone when the work fails, too", async () => {
  const stream = createStream(true);
  const work = async (): Promise<never> => {
    await stream.first;
    throw new Error("no");
  };
  await expect(withProgress("reading", work, { stream, afterMilliseconds: 0 })).rejects.toThrow(
    "no",
  );
  expect(stream.written.at(-1)).toBe("\r\u001b[K");
});

test.each([
  ["quick work", { afterMilliseconds: 60_000 }],
  ["a script that reads JSON", { afterMilliseconds: 0, json: true }],
])("nothing is said to %s", async (_, options) => {
  const stream = createStream(false);
  // Timers of no time have run before.
  const work = () => new Promise((resolve) => setTimeout(resolve, 0)).then(() => "done");
  expect(await withProgress("reading", work, { stream, ...options })).toBe("done");
  expect(stream.written).toEqual([]);
});
