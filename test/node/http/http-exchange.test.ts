import { Writable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { writeChunk } from "../../../src/node/http/http-exchange.ts";

/** A stream that takes 64 KiB before it asks to wait, as those of Node do, and a peer that reads when it likes. */
function start() {
  const unread: (() => void)[] = [];
  const stream = new Writable({
    highWaterMark: 64 * 1024,
    write: (_chunk, _encoding, done) => void unread.push(done),
  });
  stream.on("error", () => {});
  const state = { held: 0, isWritten: false };
  const hold = (octets: number): void => {
    state.held += octets;
  };
  const write = async (): Promise<void> => {
    await writeChunk(stream, new Uint8Array(1000), { hold });
    state.isWritten = true;
  };
  return { stream, state, write, read: () => unread.shift()?.() };
}

describe("a chunk of an answer counts as held", () => {
  test("until its peer has read on, however much the stream would take, and leaves no listener", async () => {
    const { stream, state, write, read } = start();
    const listeners = () => stream.eventNames().map((name) => stream.listenerCount(name));
    const before = listeners();
    const writing = write();
    await turn();
    expect(state).toEqual({ held: 1000, isWritten: false });
    read();
    await writing;
    expect(state).toEqual({ held: 0, isWritten: true });
    expect(listeners()).toEqual(before);
  });

  test.each([
    ["closes the stream", undefined],
    ["resets it", new Error("read ECONNRESET")],
  ])("until its peer %s, which is no error", async (_, error) => {
    const { stream, state, write } = start();
    const writing = write();
    stream.destroy(error);
    await writing;
    expect(state.held).toBe(0);
  });
});
