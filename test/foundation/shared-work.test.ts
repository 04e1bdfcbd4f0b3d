import { describe, expect, test } from "vitest";
import { Semaphore, WorkSharing } from "../../src/foundation/shared-work.ts";
import { describeSharedWork } from "../contract/bounds/shared-work.ts";
import { createTurnClock } from "../testkit/time/turn-clock.ts";

describeSharedWork(WorkSharing.polling(createTurnClock()));

/** Work whose end a test decides, by its name. */
function heldWork() {
  const begun: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<string>>();
  const work = (name: string) => () => {
    const end = Promise.withResolvers<string>();
    ends.set(name, end);
    begun.push(name);
    return end.promise;
  };
  return { begun, work, end: (name: string) => ends.get(name)?.resolve(name), ends };
}

describe("a semaphore", () => {
  test("runs as much as it may, and the rest in order", async () => {
    const semaphore = new Semaphore(2);
    const { begun, work, end } = heldWork();
    const all = ["a", "b", "c", "d"].map((name) => semaphore.run(work(name)));
    expect(begun).toEqual(["a", "b"]);
    end("b");
    await all[1];
    expect(begun).toEqual(["a", "b", "c"]);
    end("a");
    await all[0];
    end("c");
    end("d");
    expect(await Promise.all(all)).toEqual(["a", "b", "c", "d"]);
  });

  test("turns work away that may not wait, and takes it when there is room again", async () => {
    const semaphore = new Semaphore(1);
    const { begun, work, end } = heldWork();
    const first = semaphore.tryRun(work("a"));
    expect(semaphore.tryRun(work("b"))).toBeUndefined();
    end("a");
    expect(await first).toBe("a");
    expect(semaphore.tryRun(work("c"))).toBeDefined();
    expect(begun).toEqual(["a", "c"]);
  });

  test("turns nothing past work that waits", async () => {
    const semaphore = new Semaphore(1);
    const { work, end } = heldWork();
    const first = semaphore.run(work("a"));
    const second = semaphore.run(work("b"));
    end("a");
    await first;
    expect(semaphore.tryRun(work("c"))).toBeUndefined();
    end("b");
    await second;
  });

  test.each(["run", "tryRun"] as const)("%s gives back what failed work had", async (way) => {
    const semaphore = new Semaphore(1);
    const fault = new Error("failed");
    await expect(semaphore[way](() => Promise.reject(fault))).rejects.toBe(fault);
    expect(await semaphore.tryRun(async () => "a")).toBe("a");
  });
});

describe("a semaphore that is part of a larger one", () => {
  test("runs no more work than its own bound and the larger one's allow", async () => {
    const whole = new Semaphore(4);
    const [one, other] = [new Semaphore(2, whole), new Semaphore(2, whole)];
    const { work, end } = heldWork();
    const first = one.tryRun(work("a"));
    expect(one.tryRun(work("b"))).toBeDefined();
    expect(one.tryRun(work("-"))).toBeUndefined();
    expect(other.tryRun(work("c"))).toBeDefined();
    expect(other.tryRun(work("-"))).toBeUndefined();
    end("a");
    await first;
    expect(other.tryRun(work("d"))).toBeDefined();
    expect(other.tryRun(work("-"))).toBeUndefined();
  });

  test("keeps nothing of its own for work that the larger one turns away", async () => {
    const whole = new Semaphore(1);
    const part = new Semaphore(1, whole);
    const { work, end } = heldWork();
    const first = whole.tryRun(work("a"));
    expect(part.tryRun(work("-"))).toBeUndefined();
    end("a");
    await first;
    expect(part.tryRun(work("b"))).toBeDefined();
    expect(whole.tryRun(work("-"))).toBeUndefined();
  });

  test("waits for its turn in both", async () => {
    const whole = new Semaphore(1);
    const part = new Semaphore(1, whole);
    const { begun, work, end } = heldWork();
    const first = whole.run(work("a"));
    const second = part.run(work("b"));
    expect(begun).toEqual(["a"]);
    end("a");
    await first;
    expect(begun).toEqual(["a", "b"]);
    end("b");
    expect(await second).toBe("b");
  });
});
