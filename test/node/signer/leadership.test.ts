import { afterEach, describe, expect, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { Leadership } from "../../../src/node/signer/signer.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

type Answer = boolean | "unknown";
let leadership: Leadership | undefined;

afterEach(async () => {
  await leadership?.end();
  leadership = undefined;
});

/** @param stopped Until then its work goes on after it was told to end. */
function campaign(first: Answer, stopped: Promise<void> = Promise.resolve()) {
  const time = createVirtualTime(new Date("2026-11-22T12:00:00Z"));
  const log = createEventRecorder();
  const signals: AbortSignal[] = [];
  let answer = first;
  let released = 0;
  leadership = new Leadership({
    candidate: {
      acquire: async () => {
        if (answer === "unknown") throw new FetchError("did not answer");
        return answer;
      },
      release: async () => {
        released++;
        throw new FetchError("did not answer");
      },
    },
    work: (signal) => {
      signals.push(signal);
      const ended = new Promise<void>((resolve) =>
        signal.addEventListener("abort", () => resolve(stopped)),
      );
      return { ended };
    },
    log,
    clock: time.clock,
    pause: time.pause,
  });
  return {
    time,
    log,
    signals,
    leadership,
    become: (next: Answer) => {
      answer = next;
    },
    released: () => released,
  };
}

/** {@link campaign} of a process that leads. */
async function leading(stopped?: Promise<void>) {
  const led = campaign(true, stopped);
  await led.time.passUntil(() => expect(led.leadership.isLeading()).toBe(true));
  return led;
}

describe("a process", () => {
  test("that holds the lease works, once", async () => {
    const { time, signals } = await leading();
    time.pass(60);
    await time.passUntil(() => expect(signals).toHaveLength(1));
    expect(signals[0]?.aborted).toBe(false);
  });

  test("that does not hold the lease waits, and works as soon as it does", async () => {
    const { time, become, signals, leadership: own, log } = campaign(false);
    time.pass(10);
    expect(signals).toEqual([]);
    become(true);
    await time.passUntil(() => expect(own.isLeading()).toBe(true));
    expect(log.operations).toMatchObject([{ event: "leading" }]);
  });

  test("that cannot ask for the lease says so until it can", async () => {
    const { time, become, leadership: own } = campaign("unknown");
    await time.passUntil(() => expect(own.faults()).toEqual(["the API server did not answer"]));
    become(false);
    await time.passUntil(() => expect(own.faults()).toEqual([]));
  });

  test("that has lost the lease stops its work", async () => {
    const { time, become, signals, leadership: own } = await leading();
    become(false);
    await time.passUntil(() => expect(own.isLeading()).toBe(false));
    expect(signals[0]?.aborted).toBe(true);
    become(true);
    await time.passUntil(() => expect(signals).toHaveLength(2));
  });

  test("goes on for ten seconds without an answer of the API server, and no longer", async () => {
    const { time, become, signals, leadership: own } = await leading();
    const begun = time.clock().getTime();
    become("unknown");
    await time.passUntil(() => expect(own.isLeading()).toBe(false));
    const seconds = (time.clock().getTime() - begun) / 1000;
    expect(seconds).toBeGreaterThanOrEqual(8);
    expect(seconds).toBeLessThan(15);
    expect(signals[0]?.aborted).toBe(true);
  });

  test("stops by a clock that was set back, unless the API server answers", async () => {
    const { time, become, signals, leadership: own } = await leading();
    time.setBack(3600);
    time.pass(20);
    await time.passUntil(() => expect(own.isLeading()).toBe(true));
    become("unknown");
    time.setBack(3600);
    const begun = time.clock().getTime();
    await time.passUntil(() => expect(own.isLeading()).toBe(false));
    expect((time.clock().getTime() - begun) / 1000).toBeLessThan(15);
    expect(signals).toHaveLength(1);
  });

  test("that ends gives the lease up after its work has stopped", async () => {
    const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
    const { time, signals, leadership: own, released } = await leading(stopped);
    const ended = own.end();
    await time.passUntil(() => expect(signals[0]?.aborted).toBe(true));
    expect(released()).toBe(0);
    stop();
    await ended;
    expect(released()).toBe(1);
  });

  test("that never led gives nothing up", async () => {
    const { leadership: own, released } = campaign(false);
    await own.end();
    expect(released()).toBe(0);
  });
});
