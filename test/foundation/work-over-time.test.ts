import { getEventListeners } from "node:events";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { InterruptibleSleep } from "../../src/foundation/interruptible-sleep.ts";
import { pause, waitFor } from "../../src/foundation/pause.ts";
import { SingleFlight } from "../../src/foundation/single-flight.ts";
import { CoalescedWork, LatestWrites } from "../../src/program/coalesced-work.ts";

/** Work that ends when it is told to, one piece after the other. */
function heldWork() {
  const held: PromiseWithResolvers<void>[] = [];
  return {
    begun: () => held.length,
    wait: () => {
      const next = Promise.withResolvers<void>();
      held.push(next);
      return next.promise;
    },
    /** Ends the piece that began last, if one is under way, and lets all follow that waits for it. */
    end: async (error?: Error) => {
      if (error) held.at(-1)?.reject(error);
      else held.at(-1)?.resolve();
      await settled();
    },
  };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("a single flight", () => {
  type Act = "join" | "end" | "fail" | "forget" | "due";
  const acts = fc.array(fc.constantFrom<Act>("join", "end", "fail", "forget", "due"), {
    maxLength: 40,
  });

  test("runs at most one work for all who ask, and again once its result is due", async () => {
    await fc.assert(
      fc.asyncProperty(acts, async (all) => {
        const flight = new SingleFlight<number>();
        const work = heldWork();
        let [isUnderWay, isGood, runs] = [false, false, 0];
        let waiting: Promise<unknown>[] = [];
        const answers: unknown[] = [];
        for (const act of all) {
          if (act === "join") {
            if (!isUnderWay && !isGood) [isUnderWay, runs] = [true, runs + 1];
            const run = runs;
            const joined = flight.join(
              () => work.wait().then(() => run),
              () => isGood,
            );
            // Who asks while a result is good gets it, and waits for no later run.
            if (isGood) expect(await joined).toBe(run);
            else waiting.push(joined.catch((error: Error) => error.message));
          } else if (act === "end" || act === "fail") {
            if (!isUnderWay) continue;
            await work.end(act === "fail" ? new Error(`${runs}`) : undefined);
            // Everybody who waits learns of this run, and of no other.
            answers.push(...(await Promise.all(waiting)));
            expect(new Set(answers.splice(0))).toEqual(
              new Set(waiting.length > 0 ? [act === "fail" ? `${runs}` : runs] : []),
            );
            [waiting, isUnderWay, isGood] = [[], false, act === "end"];
          } else if (act === "due") {
            isGood = false;
          } else if (!isUnderWay) {
            flight.forget();
            isGood = false;
          }
          expect(work.begun()).toBe(runs);
          expect(flight.underWay !== undefined).toBe(isUnderWay);
        }
        await work.end();
      }),
    );
  });

  test.each([
    ["ends", undefined],
    ["fails", new Error("away")],
  ])(
    "that was forgotten under way, and %s then, serves nobody who asks later",
    async (_, error) => {
      const flight = new SingleFlight<string>();
      const works = [heldWork(), heldWork()] as const;
      const [first, second] = works.map((work, i) => {
        const joined = flight.join(
          () => work.wait().then(() => `${i}`),
          () => true,
        );
        if (i === 0) flight.forget();
        return joined;
      });
      const outcome = first?.catch(({ message }) => message);
      await works[0].end(error);
      expect(await outcome).toBe(error ? "away" : "0");
      const third = flight.join(async () => "2");
      await works[1].end();
      expect([await second, await third]).toEqual(["1", "1"]);
    },
  );

  test("keeps no result by default", async () => {
    const flight = new SingleFlight<number>();
    let runs = 0;
    const work = async () => ++runs;
    expect([await flight.join(work), await flight.join(work)]).toEqual([1, 2]);
  });
});

describe("a sleep of forty seconds", () => {
  /** @param jumps How far the clock is off after each pause, beyond the pause. */
  async function pausesOf(jumps: readonly number[], interruption?: "before") {
    let now = 1_000_000;
    const pauses: number[] = [];
    const sleep = new InterruptibleSleep(
      () => new Date(now),
      async (milliseconds) => {
        now += milliseconds + 1000 * (jumps[pauses.length] ?? 0);
        pauses.push(milliseconds / 1000);
      },
    );
    if (interruption) sleep.interrupt();
    const { signal } = new AbortController();
    await sleep.until(new Date(now + 40_000), signal);
    expect(getEventListeners(signal, "abort")).toEqual([]);
    return pauses;
  }

  test.each([
    ["reads the clock every fifteen seconds", [], [15, 15, 10]],
    ["is no longer though the clock is set back", [-3600], [15, 15, 10]],
    ["is over once the machine was suspended", [0, 3600], [15, 15]],
  ])("%s", async (_, jumps, pauses) => {
    expect(await pausesOf(jumps)).toEqual(pauses);
  });

  test("does not begin after an interruption", async () => {
    expect(await pausesOf([], "before")).toEqual([]);
  });
});

test("a pause leaves no listener behind, and work that is waited for no timer", async () => {
  const { signal } = new AbortController();
  await pause(1, signal);
  expect(getEventListeners(signal, "abort")).toEqual([]);
  const waits: (AbortSignal | undefined)[] = [];
  const wait = (_: number, done?: AbortSignal) => {
    waits.push(done);
    return new Promise<void>(() => {});
  };
  expect(await waitFor(Promise.resolve("done"), 60_000, wait)).toBe("done");
  expect(waits.map((each) => each?.aborted)).toEqual([true]);
});

test("coalesced work runs once more for changes during a run, and sees the last of them", async () => {
  const steps = fc.array(fc.constantFrom("change", "end"), { maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const work = heldWork();
      let [content, seen, underWay] = [0, 0, 0];
      const coalesced = new CoalescedWork(async () => {
        underWay++;
        expect(underWay).toBe(1);
        seen = content;
        await work.wait();
        underWay--;
      });
      let runs = 0;
      let [isRunning, isDue] = [false, false];
      let last: Promise<void> | undefined;
      for (const step of all) {
        if (step === "change") {
          content++;
          last = coalesced.run();
          if (isRunning) isDue = true;
          else [isRunning, runs] = [true, runs + 1];
        } else if (isRunning) {
          await work.end();
          if (isDue) [isDue, runs] = [false, runs + 1];
          else isRunning = false;
        }
        expect(work.begun()).toBe(runs);
        expect(coalesced.underWay !== undefined).toBe(isRunning);
      }
      await work.end();
      await work.end();
      await last;
      expect(seen).toBe(content);
    }),
  );
});

test("writes are in order, and of several for one name that wait the latest is written", async () => {
  const steps = fc.array(fc.oneof(fc.constantFrom("a", "b", "c"), fc.constant("end")), {
    maxLength: 40,
  });
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const work = heldWork();
      const written: string[] = [];
      const writes = new LatestWrites<number>(async (name, value) => {
        written.push(`${name}${value}`);
        await work.wait();
      });
      const latest = new Map<string, number>();
      const given: string[] = [];
      let last: Promise<void> | undefined;
      for (const [i, step] of all.entries()) {
        if (step === "end") await work.end();
        else {
          latest.set(step, i);
          given.push(`${step}${i}`);
          last = writes.write(step, i);
        }
      }
      while (writes.underWay) await work.end();
      await last;
      for (const name of latest.keys()) {
        const ofName = written.filter((each) => each.startsWith(name));
        expect(ofName.at(-1)).toBe(`${name}${latest.get(name)}`);
        // Nothing is written twice, and nothing before what was given before it.
        expect(ofName).toEqual(given.filter((each) => ofName.includes(each)));
      }
    }),
  );
});
