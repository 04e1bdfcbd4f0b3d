import { performServerHandshake } from "node:http2";
import { duplexPair } from "node:stream";
import { expect, test } from "vitest";
import { allowing } from "../../../src/node/http/requests-at-once.ts";
import { frame, preface } from "../../testkit/network/http2-frames.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const acknowledgement = frame(4, 1, 0, Buffer.alloc(0));

/** A session, and its peer: what the server has told it, and its acknowledgements. */
function start() {
  const [own, other] = duplexPair();
  const session = performServerHandshake(own);
  session.on("error", () => {});
  let received = Buffer.alloc(0);
  other.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
  });
  other.on("error", () => {});
  other.write(preface);
  const state = { now: 0 };
  const acknowledge = (times: number): void => {
    for (let i = 0; i < times; i++) other.write(acknowledgement);
  };
  return {
    session,
    state,
    allow: allowing(
      session,
      () => state.now,
      () => session.destroy(),
    ),
    told: () => boundsIn(received),
    acknowledge,
  };
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

test("a peer that is slow to acknowledge keeps its session, and learns the last number", async () => {
  const { session, allow, told, acknowledge } = start();
  for (let i = 0; i < 50; i++) for (const requests of [8, 16]) allow(requests);
  await expect.poll(told, { timeout: hangMilliseconds }).toEqual([8]);
  acknowledge(2);
  await expect.poll(told, { timeout: hangMilliseconds }).toEqual([8, 16]);
  acknowledge(1);
  allow(16);
  allow(8);
  await expect.poll(told, { timeout: hangMilliseconds }).toEqual([8, 16, 8]);
  expect(session.destroyed).toBe(false);
});

test("a peer that acknowledges nothing for five seconds loses its session", async () => {
  const { session, state, allow, told } = start();
  allow(8);
  await expect.poll(told, { timeout: hangMilliseconds }).toEqual([8]);
  state.now = 5_000;
  allow(16);
  expect(session.destroyed).toBe(false);
  state.now = 5_001;
  allow(16);
  expect(session.destroyed).toBe(true);
  allow(8);
});
