import type { Socket } from "node:net";
import { frame, getRoot, ping, preface, reset } from "./http2-frames.ts";

const continuation = frame(9, 0, 1, Buffer.alloc(0));
/** `GET https:`, to be continued. */
const openHead = frame(1, 0, 1, Buffer.from([0x82, 0x87]));
const odd = Array.from({ length: 500 }, (_, i) => 2 * i + 1);

/** The ways in which a peer ends a session. It acknowledges no settings, whichever it takes. */
export const breaches: ReadonlyMap<string, readonly Buffer[]> = new Map([
  ["a head in too many frames", [openHead, ...Array<Buffer>(20).fill(continuation)]],
  ["a frame within a head", [openHead, ping]],
  ["a head that does not decompress", [frame(1, 4, 1, Buffer.alloc(6, 0xff))]],
  ["a frame that is too large", [frame(0, 0, 1, Buffer.alloc(20_000))]],
  ["a reset of a stream that never was", [reset(1, 8)]],
  ["a window that is too large", [frame(8, 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff]))]],
  ["a request, and then a broken one", [getRoot(1), frame(1, 4, 3, Buffer.alloc(6, 0xff))]],
  ["pings by the hundred", Array<Buffer>(500).fill(ping)],
  [
    "resets by the hundred",
    odd.map((stream) => Buffer.concat([getRoot(stream), reset(stream, 8)])),
  ],
  ["a peer that hangs up", []],
]);

/** Opens some connections one after the other, and ends the session of each. Resolves when all are closed. */
export async function breakSessions(
  open: () => Socket,
  frames: readonly Buffer[],
  count: number,
): Promise<void> {
  for (let i = 0; i < count; i++) {
    const socket = open();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.resume();
      // Not every breach ends the session at once.
      socket.end(Buffer.concat(frames));
    });
    socket.write(preface);
    await closed;
  }
}
