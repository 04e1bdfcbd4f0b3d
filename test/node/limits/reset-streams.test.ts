import { constants } from "node:http2";
import { expect, onTestFinished, test } from "vitest";
import { listenInPlaintext } from "../../../src/node/http/listener.ts";
import { createGuard } from "../../../src/node/limits/guard.ts";
import { usualLimits } from "../../../src/node/limits/limits.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { data, openFrames, post, reset, writeAndPing } from "../../testkit/network/http2-frames.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const answerNever = () => new Promise<never>(() => {});

/** A server with one turn, which work that never ends has taken. */
async function start() {
  const limits = {
    ...usualLimits,
    requests_at_work: 1,
    requests_at_work_per_address: 1,
    progress_timeout: 100 * hangMilliseconds,
  };
  const guard = createGuard(limits);
  const log = createEventRecorder();
  const routes = { rpcs: new Map([["/call", answerNever]]), fetch: answerNever, log };
  const listener = await listenInPlaintext(routes, { host: "127.0.0.1", port: 0 }, guard);
  onTestFinished(async () => {
    guard.end();
    await listener.close(0);
  });
  const stalled = guard.exchanges.begin({
    address: "127.0.0.1",
    isReceiving: () => false,
    unsentOctets: () => 0,
    abort: () => {},
    refuse: () => {},
    isGone: () => false,
  });
  void stalled?.inTurn(answerNever);
  return { port: listener.address.port, guard };
}

const few = Array.from({ length: 4 }, () => data(1, 15_000));
/** With those before it is more than a message may be, so that the server reads no further. */
const beyond = Array.from({ length: 8 }, () => data(1, 4_000));
const unread = Array.from({ length: 8 }, () => data(1, 1_000));

/** Has a stream wait for its turn, with octets that nobody reads. */
async function startWaiting() {
  const { port, guard } = await start();
  const socket = await openFrames(port);
  await writeAndPing(socket, [post(1, "/call")]);
  // Each piece in a pass of its own, because the server opens its window as it reads.
  for (const each of few) await writeAndPing(socket, [each]);
  for (const each of [beyond, unread]) await writeAndPing(socket, each);
  return { guard, socket };
}

test.each(["NGHTTP2_NO_ERROR", "NGHTTP2_CANCEL"] as const)(
  "a stream that waits for its turn, and holds what nobody reads, ends when it is reset with %s",
  async (code) => {
    const { guard, socket } = await startWaiting();
    expect(guard.exchanges.count).toBe(2);
    await writeAndPing(socket, [reset(1, constants[code])]);
    await expect.poll(() => guard.exchanges.count, { timeout: hangMilliseconds }).toBe(1);
  },
);

test("a stream that is not reset keeps its place in the queue", async () => {
  const { guard } = await startWaiting();
  expect(guard.exchanges.count).toBe(2);
});
