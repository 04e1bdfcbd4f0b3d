import { performServerHandshake } from "node:http2";
import { duplexPair } from "node:stream";
import { expect, onTestFinished, test, vi } from "vitest";
import { ping } from "../../../src/node/http/http2-server.ts";
import { frame, preface } from "../../testkit/network/http2-frames.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

/** A session that is pinged, and its peer. */
function start(answers: boolean) {
  const [own, peer] = duplexPair();
  const session = performServerHandshake(own);
  onTestFinished(() => void own.destroy());
  session.on("error", () => {});
  peer
    .on("error", () => {})
    .on("data", (chunk: Buffer) => {
      const isPing = chunk.length === 17 && chunk[3] === 6;
      if (isPing && answers) peer.write(frame(6, 1, 0, chunk.subarray(9)));
    });
  peer.write(preface);
  const cut = vi.fn();
  return { session, cut };
}

test.each([
  { answers: true, cuts: 0 },
  { answers: false, cuts: 1 },
])("a peer that answers pings ($answers) is cut $cuts times", async ({ answers, cuts }) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const { session, cut } = start(answers);
  ping(session, { abort: cut });
  await new Promise((resolve) => setImmediate(() => setImmediate(() => setImmediate(resolve))));
  vi.advanceTimersByTime(10_000);
  expect(cut).toHaveBeenCalledTimes(cuts);
});

test("a session that has ended and not closed is cut at the next ping: its peer takes nothing any more", async () => {
  const { session, cut } = start(false);
  session.destroy();
  ping(session, { abort: cut });
  await expect.poll(() => cut.mock.calls.length, { timeout: hangMilliseconds }).toBe(1);
});
