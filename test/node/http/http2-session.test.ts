import { performServerHandshake } from "node:http2";
import { duplexPair } from "node:stream";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { ping } from "../../../src/node/http/http2-server.ts";
import { allowing } from "../../../src/node/http/requests-at-once.ts";
import { frame, preface } from "../../testkit/network/http2-frames.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

/** A session of a server, and its peer. */
function start() {
  const [own, peer] = duplexPair();
  const session = performServerHandshake(own);
  onTestFinished(() => void own.destroy());
  for (const each of [session, peer]) each.on("error", () => {});
  peer.write(preface);
  return { session, peer };
}

describe("a peer that is pinged", () => {
  test.each([
    { answers: true, cuts: 0 },
    { answers: false, cuts: 1 },
  ])("and answers ($answers) is cut $cuts times", async ({ answers, cuts }) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const { session, peer } = start();
    peer.on("data", (chunk: Buffer) => {
      const isPing = chunk.length === 17 && chunk[3] === 6;
      if (isPing && answers) peer.write(frame(6, 1, 0, chunk.subarray(9)));
    });
    const cut = vi.fn();
    ping(session, { abort: cut });
    await new Promise((resolve) => setImmediate(() => setImmediate(() => setImmediate(resolve))));
    vi.advanceTimersByTime(10_000);
    expect(cut).toHaveBeenCalledTimes(cuts);
  });

  test("on a session that has ended and not closed is cut: it takes nothing any more", async () => {
    const { session } = start();
    const cut = vi.fn();
    session.destroy();
    ping(session, { abort: cut });
    await expect.poll(() => cut.mock.calls.length, { timeout: hangMilliseconds }).toBe(1);
  });
});

describe("a peer that is told how many requests it may send at once", () => {
  const acknowledgement = frame(4, 1, 0, Buffer.alloc(0));

  function startAllowing() {
    const { session, peer } = start();
    let received = Buffer.alloc(0);
    peer.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
    });
    const state = { now: 0 };
    const cut = () => session.destroy();
    const allow = allowing(session, () => state.now, cut);
    const expectTold = (bounds: readonly number[]) =>
      expect.poll(() => boundsIn(received), { timeout: hangMilliseconds }).toEqual(bounds);
    return { session, peer, state, allow, expectTold };
  }

  /** The SETTINGS_MAX_CONCURRENT_STREAMS, 0x3, of each SETTINGS frame that has one. */
  function boundsIn(octets: Buffer): number[] {
    const bounds: number[] = [];
    for (let at = 0; at + 9 <= octets.length; at += 9 + octets.readUIntBE(at, 3)) {
      const payload = octets.subarray(at + 9, at + 9 + octets.readUIntBE(at, 3));
      for (let i = 0; octets[at + 3] === 4 && i + 6 <= payload.length; i += 6)
        if (payload.readUInt16BE(i) === 3) bounds.push(payload.readUInt32BE(i + 2));
    }
    return bounds;
  }

  test("and is slow to acknowledge keeps its session, and learns the last number", async () => {
    const { session, peer, allow, expectTold } = startAllowing();
    for (let i = 0; i < 50; i++) for (const requests of [8, 16]) allow(requests);
    await expectTold([8]);
    peer.write(Buffer.concat([acknowledgement, acknowledgement]));
    await expectTold([8, 16]);
    peer.write(acknowledgement);
    allow(16);
    allow(8);
    await expectTold([8, 16, 8]);
    expect(session.destroyed).toBe(false);
  });

  test("and acknowledges nothing for five seconds loses its session", async () => {
    const { session, state, allow, expectTold } = startAllowing();
    allow(8);
    await expectTold([8]);
    state.now = 5_000;
    allow(16);
    expect(session.destroyed).toBe(false);
    state.now = 5_001;
    allow(16);
    expect(session.destroyed).toBe(true);
    allow(8);
  });
});
