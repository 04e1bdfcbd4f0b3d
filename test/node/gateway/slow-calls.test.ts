import { expect, test } from "vitest";
import { SlowCalls } from "../../../src/node/gateway/slow-calls.ts";
import { FairQueue } from "../../../src/node/limits/fair-queue.ts";
import { Turn } from "../../../src/node/limits/turn.ts";

const inOnePass = { all: 9, address: 9 };
const limits = { underWay: 9, underWayPerAddress: 9, waiting: 9, waitingPerAddress: 9 };

test("beyond the bound of slow calls, the oldest of the address with most ends", async () => {
  const queue = new FairQueue(() => ({ ...limits, inOneTick: inOnePass, timeLimit: 1000 }));
  const slow = new SlowCalls(1, 3);
  const callers = new AbortController().signal;
  const ended: string[] = [];
  const firstEnd = Promise.withResolvers<void>();
  async function begin(name: string, address: string): Promise<void> {
    const turn = new Turn(queue, address);
    await turn.take();
    const never = (ending: AbortSignal) =>
      new Promise((_, reject) => {
        ending.addEventListener("abort", () => reject(ending.reason));
      });
    await turn
      .run(() => slow.wait(address, callers, never))
      .catch(({ message }: Error) => {
        ended.push(`${name}: ${message}`);
        firstEnd.resolve();
      });
  }
  for (const name of ["a1", "b1", "c1", "c2"]) void begin(name, `192.0.2.${name.charCodeAt(0)}`);
  await firstEnd.promise;
  expect(ended).toEqual(["c1: the CA is slow, and too many wait for it"]);
});

test("a call whose caller has gone already does not wait for the CA", async () => {
  const gone = AbortSignal.abort(new Error("gone"));
  const answer = async (ending: AbortSignal): Promise<void> => ending.throwIfAborted();
  await expect(new SlowCalls().wait("192.0.2.1", gone, answer)).rejects.toThrow("gone");
});
