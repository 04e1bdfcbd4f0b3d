import { PassThrough, Writable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { bodyOf, HttpExchange } from "../../../src/node/http/http-exchange.ts";

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
    await HttpExchange.writeChunk(stream, new Uint8Array(1000), { reserve: hold });
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

describe("a request in pieces of one octet holds no more than ten times its octets", () => {
  const octets = 60_000;

  /** Writes to each of some requests, and measures what they hold. */
  async function octetsHeld(receive: (incoming: PassThrough) => unknown): Promise<number> {
    const collect: () => void = runInNewContext("gc");
    collect();
    const before = process.memoryUsage().heapUsed;
    const requests = Array.from({ length: 3 }, () => {
      const incoming = new PassThrough({ highWaterMark: octets + 1 });
      return { incoming, received: receive(incoming) };
    });
    for (const { incoming } of requests) {
      for (let i = 0; i < octets; i++) incoming.push(Buffer.from([i % 256]));
      await turn();
    }
    collect();
    const held = process.memoryUsage().heapUsed - before;
    return held / requests.length;
  }

  setFlagsFromString("--expose-gc");
  test.each([
    ["of an RPC", (incoming: PassThrough) => bodyOf(incoming, {}, () => {})],
    [
      "of a page that takes long",
      (incoming: PassThrough) =>
        HttpExchange.answer({ rpcs: new Map() } as never, {
          path: "/",
          incoming,
          headers: {},
          call: () => ({}) as never,
          peer: {},
          permit: { inTurn: () => new Promise(() => {}) } as never,
        }),
    ],
  ])("%s", async (_, receive) => {
    expect(await octetsHeld(receive)).toBeLessThan(10 * octets);
  });

  test("and is whole", async () => {
    const incoming = new PassThrough();
    const body = bodyOf(incoming, {}, () => {});
    const sent = Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 251));
    for (const octet of sent) incoming.push(Buffer.from([octet]));
    incoming.push(null);
    expect(Buffer.from(await (await body)())).toEqual(sent);
  });
});
