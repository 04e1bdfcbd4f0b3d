import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { drained } from "../../../src/node/http/http-exchange.ts";

/** A stream that nobody reads, and that takes no more. */
function fullStream(): PassThrough {
  const stream = new PassThrough({ highWaterMark: 1 });
  stream.on("error", () => {});
  stream.write("ab");
  return stream;
}

describe("the wait for a stream to drain", () => {
  test("ends when its peer reads on, and leaves no listener", async () => {
    const stream = fullStream();
    const before = stream.eventNames().map((name) => stream.listenerCount(name));
    const waiting = drained(stream);
    stream.resume();
    await waiting;
    expect(stream.eventNames().map((name) => stream.listenerCount(name))).toEqual(before);
  });

  test.each([
    ["closes it", undefined],
    ["resets it", new Error("read ECONNRESET")],
  ])("ends without an error when its peer %s", async (_, error) => {
    const stream = fullStream();
    const waiting = drained(stream);
    stream.destroy(error);
    await waiting;
  });
});
