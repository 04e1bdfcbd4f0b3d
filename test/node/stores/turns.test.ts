import { describe, expect, test } from "vitest";
import type { Freshness } from "../../../src/node/stores/object-space.ts";
import { longestTurnSeconds, Turns, turnSecondsOf } from "../../../src/node/stores/turns.ts";
import { createMemorySpace } from "../../testkit/stores/memory-space.ts";

const turnSeconds = longestTurnSeconds;

function replicas() {
  const space = createMemorySpace();
  const time = { now: new Date("2026-11-22T12:00:00Z").getTime() };
  const clock = () => new Date(time.now);
  const pass = (seconds: number): void => {
    time.now += 1000 * seconds;
  };
  return {
    space,
    clock,
    pass,
    join: (identity: string) => new Turns(space, { identity, clock, turnSeconds }),
  };
}

const never = async (): Promise<void> => {
  throw new Error("it was not its turn");
};

/** Begins a turn, which ends when the test says so. It rejects where there is none to begin. */
async function begin(turns: Turns) {
  const { promise, resolve: end } = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const taken = turns.take(() => {
    begun.resolve();
    return promise;
  });
  await Promise.race([begun.promise, taken.then(never)]);
  return { end, taken };
}

describe("the turns of replicas", () => {
  test("are one at a time within a replica, too, and the refused one ends nothing", async () => {
    const { join } = replicas();
    const [a, b] = [join("a"), join("b")];
    const first = await begin(a);
    expect(await a.take(never)).toBe(false);
    expect(await b.take(never)).toBe(false);
    first.end();
    expect(await first.taken).toBe(true);
    expect(await a.take(async () => {})).toBe(true);
  });

  test("are free at once after work that failed", async () => {
    const { join } = replicas();
    await expect(join("a").take(never)).rejects.toThrow("not its turn");
    expect(await join("b").take(async () => {})).toBe(true);
  });

  test("that cannot be given back are done nevertheless", async () => {
    const { space, clock } = replicas();
    let isAway = false;
    const write: typeof space.write = async (...object) => {
      if (isAway) throw new Error("away");
      return space.write(...object);
    };
    const turns = new Turns({ ...space, write }, { identity: "a", clock, turnSeconds });
    const work = async (): Promise<void> => {
      isAway = true;
    };
    expect(await turns.take(work)).toBe(true);
  });

  test("pass on from a replica that has vanished, but not before its time", async () => {
    const { join, pass } = replicas();
    await begin(join("a"));
    const b = join("b");
    expect(await b.take(never)).toBe(false);
    pass(turnSeconds - 1);
    expect(await b.take(never)).toBe(false);
    pass(1);
    expect(await b.take(async () => {})).toBe(true);
  });

  test.each([
    [10, 30],
    [31, 31],
    [60, 60],
    [3600, 120],
  ])("last, with a propagation interval of %i seconds, %i seconds", (propagation, seconds) => {
    expect(turnSecondsOf(propagation)).toBe(seconds);
  });

  test.each([30, 40, 60])(
    "of %i seconds begin no write that may end after them",
    async (turnSeconds) => {
      const { space, clock, pass } = replicas();
      const turns = new Turns(space, { identity: "a", clock, turnSeconds });
      const late = turns.take(async () => {
        pass(turnSeconds - 16);
        await turns.space.write("a", "");
        pass(1);
        await turns.space.write("b", "");
      });
      await expect(late).rejects.toThrow(/took too long/);
      expect([...space.objects.keys()].toSorted()).toEqual(["a", "rotation"]);
    },
  );

  test("in which the clock is set back write nothing any more: they may have taken too long", async () => {
    const { join, pass, space } = replicas();
    const sleeper = join("a");
    const work = sleeper.take(async () => {
      pass(-3600);
      await sleeper.space.write("a", "");
    });
    await expect(work).rejects.toThrow(/took too long/);
    expect([...space.objects.keys()]).toEqual(["rotation"]);
  });

  test("that take too long remove nothing any more", async () => {
    const { join, pass, space } = replicas();
    const sleeper = join("a");
    await expect(
      sleeper.take(async () => {
        await sleeper.space.write("a", "");
        await sleeper.space.write("b", "");
        await sleeper.space.remove("b");
        pass(turnSeconds - 29);
        await sleeper.space.remove("a");
      }),
    ).rejects.toThrow(/took too long/);
    expect([...space.objects.keys()].toSorted()).toEqual(["a", "rotation"]);
  });

  test("at one kind of work do not keep others from another kind", async () => {
    const { space } = replicas();
    const turnsOf = (identity: string, work: "rotation" | "push") =>
      new Turns(space, { identity, clock: () => new Date(), turnSeconds }, work);
    const pushing = await begin(turnsOf("a", "push"));
    expect(await turnsOf("b", "push").take(never)).toBe(false);
    expect(await turnsOf("b", "rotation").take(async () => {})).toBe(true);
    pushing.end();
    expect(await pushing.taken).toBe(true);
  });

  test("see what replicas before them have written", async () => {
    const { space, join } = replicas();
    const asked: Freshness[] = [];
    const list = (freshness: Freshness) => {
      asked.push(freshness);
      return space.list(freshness);
    };
    const turns = new Turns(
      { ...space, list },
      { identity: "a", clock: () => new Date(), turnSeconds },
    );
    await turns.space.list("recent");
    await turns.take(async () => void (await turns.space.list("recent")));
    await turns.space.list("recent");
    expect(asked).toEqual(["recent", "now", "recent"]);
    expect(await join("b").take(async () => {})).toBe(true);
  });

  test.each(["", "{}", "null", '{"holder":"x","seconds":1e9,"acquireTime":"","transitions":0}'])(
    "are free where somebody has written %j in the place of the lease",
    async (text) => {
      const { space, join } = replicas();
      await space.write("rotation", text);
      expect(await join("a").take(async () => {})).toBe(true);
    },
  );

  test("are refused to every replica while the store cannot be written", async () => {
    const fail = async (): Promise<never> => {
      throw new Error("away");
    };
    const turns = new Turns(
      { ...createMemorySpace(), write: fail },
      { identity: "a", clock: () => new Date(), turnSeconds },
    );
    await expect(turns.take(never)).rejects.toThrow("away");
  });
});
