import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FairQueue, type Piece } from "../../../src/node/limits/fair-queue.ts";
import type { Loop } from "../../../src/node/limits/loop.ts";

const patience = 1000;
const inOnePass = { all: 32, address: 4 };
const limits = {
  atWork: 3,
  atWorkPerAddress: 2,
  waiting: 4,
  waitingPerAddress: 3,
  inOnePass,
  patience,
};

const manyAtOnce = {
  atWork: 999,
  atWorkPerAddress: 999,
  waiting: 999,
  waitingPerAddress: 999,
  inOnePass,
  patience,
};

/** A loop that a test turns. */
function handTurned() {
  const passes: (() => void)[] = [];
  let timers: { readonly at: number; readonly resume: () => void }[] = [];
  let now = 0;
  const loop: Loop = {
    clock: () => now,
    afterPass: (resume) => void passes.push(resume),
    after: (milliseconds, resume) => void timers.push({ at: now + milliseconds, resume }),
  };
  const turn = (): void => {
    while (passes.length > 0) passes.shift()?.();
  };
  const elapse = (milliseconds: number): void => {
    for (const end = now + milliseconds; now < end; turn()) {
      now = Math.min(end, ...timers.map(({ at }) => at));
      const due = timers.filter(({ at }) => at <= now);
      timers = timers.filter(({ at }) => at > now);
      for (const { resume } of due) resume();
    }
  };
  return { loop, passes, turn, elapse, timers: () => timers.length };
}

/** Work whose end a test decides. */
function pieces(queue: FairQueue) {
  const begun: string[] = [];
  const gone: string[] = [];
  const ends: (() => void)[] = [];
  const pieceOf = (address: string, name = address): Piece => ({
    address,
    begin: (done) => {
      begun.push(name);
      ends.push(done);
    },
    giveWay: () => gone.push(name),
  });
  const take = (address: string, name = address) => queue.take(pieceOf(address, name));
  return { begun, gone, ends, pieceOf, take };
}

describe("a fair queue", () => {
  test("begins what waits within half the patience once a limit is raised", () => {
    const { loop, turn, elapse } = handTurned();
    const changing = { ...limits, atWork: 1 };
    const { begun, gone, take } = pieces(new FairQueue(changing, loop));
    for (const address of ["a", "b", "c"]) take(address);
    turn();
    changing.atWork = 2;
    elapse(patience / 2);
    expect(begun).toEqual(["a", "b"]);
    expect(gone).toEqual([]);
  });

  test("has a shorter patience count for what waits already", () => {
    const { loop, turn, elapse } = handTurned();
    const changing = { ...limits, atWork: 1, patience: 1000 * patience };
    const { begun, take } = pieces(new FairQueue(changing, loop));
    for (const address of ["a", "b"]) take(address);
    turn();
    changing.patience = patience;
    elapse(2 * patience);
    expect(begun).toEqual(["a", "b"]);
  });

  test("has one piece give way to a newcomer once a limit is lowered, and begins no other until it holds", () => {
    const { loop, turn, elapse } = handTurned();
    const changing = {
      ...limits,
      atWork: 8,
      atWorkPerAddress: 8,
      inOnePass: { all: 32, address: 8 },
    };
    const { begun, gone, ends, take } = pieces(new FairQueue(changing, loop));
    for (let i = 0; i < 8; i++) take("a");
    turn();
    changing.atWork = 2;
    take("b");
    take("a", "late");
    elapse(patience);
    expect(gone).toEqual(["a"]);
    expect(begun.slice(8)).toEqual(["b"]);
    for (const end of ends.slice(1, 7)) end();
    expect(begun.slice(8)).toEqual(["b"]);
    ends[7]?.();
    expect(begun.slice(8)).toEqual(["b", "late"]);
  });

  test("begins at once while an address has less under way than it may", () => {
    const { begun, take } = pieces(new FairQueue(limits));
    for (const name of ["1", "2", "3"]) take("a", name);
    expect(begun).toEqual(["1", "2"]);
  });

  test("gives the next turn to the address with least under way", () => {
    const { begun, ends, take } = pieces(new FairQueue(limits));
    for (const name of ["1", "2", "3", "4", "5"]) take("a", name);
    take("b");
    expect(begun).toEqual(["1", "2", "b"]);
    take("c");
    ends[0]?.();
    expect(begun).toEqual(["1", "2", "b", "c"]);
    ends[1]?.();
    expect(begun).toEqual(["1", "2", "b", "c", "3"]);
  });

  test("has an address with most under way give way to one with none", () => {
    const { begun, gone, take } = pieces(new FairQueue({ ...limits, atWorkPerAddress: 3 }));
    for (const name of ["a1", "a2", "a3", "a4", "b1"]) take(name.slice(0, 1), name);
    expect([begun, gone]).toEqual([["a1", "a2", "a3", "b1"], ["a1"]]);
    // Now one of each gives nothing to a third, whose address would be left with no less than theirs.
    take("b", "b2");
    expect(gone).toHaveLength(1);
  });

  test("has an address with most that waits give way to one with less", () => {
    const { gone, take } = pieces(new FairQueue({ ...limits, atWorkPerAddress: 1 }));
    for (const name of ["a1", "b1", "c1", "a2", "a3", "b2", "c2"]) take(name.slice(0, 1), name);
    expect(gone).toEqual([]);
    expect(take("d", "d1")).toBeUndefined();
    expect(gone).toEqual(["a2"]);
    expect([take("d", "d2"), take("b", "b3")]).toEqual(["all", "all"]);
  });

  test("has the oldest that waits give way to an address with none", () => {
    const { gone, take } = pieces(new FairQueue({ ...limits, atWork: 1 }));
    for (const name of ["a", "b", "c", "d", "e"]) take(name);
    expect(take("f")).toBeUndefined();
    expect(gone).toEqual(["b"]);
  });

  test("takes no more of an address than may wait, nor in all", () => {
    const { take } = pieces(new FairQueue(limits));
    expect(Array.from({ length: 6 }, () => take("a"))[5]).toBe("address");
    for (const name of ["b1", "b2", "b3"]) expect(take("b", name)).toBeUndefined();
    expect(take("b")).toBe("all");
  });

  test("forgets a piece that is withdrawn: it never begins, and leaves its place", () => {
    const queue = new FairQueue({ ...limits, waiting: 1 });
    const { begun, ends, pieceOf, take } = pieces(queue);
    for (const name of ["1", "2"]) take("a", name);
    const waiting = pieceOf("a", "3");
    expect([queue.take(waiting), take("a", "4")]).toEqual([undefined, "all"]);
    queue.withdraw(waiting);
    queue.withdraw(waiting);
    expect([take("a", "5"), take("a", "6")]).toEqual([undefined, "all"]);
    for (const end of [...ends]) end();
    expect(begun).toEqual(["1", "2", "5"]);
  });

  test("is not touched by the withdrawal of a piece under way, or of one that it never took", () => {
    const queue = new FairQueue(limits);
    const { begun, pieceOf, take } = pieces(queue);
    const [first, other] = [pieceOf("a", "1"), pieceOf("b")];
    queue.take(first);
    queue.withdraw(first);
    queue.withdraw(other);
    for (const name of ["2", "3"]) take("a", name);
    expect(begun).toEqual(["1", "2"]);
  });

  test("does not count an end that is told twice", () => {
    const { begun, ends, take } = pieces(new FairQueue(limits));
    for (const name of ["1", "2", "3", "4"]) take("a", name);
    ends[0]?.();
    ends[0]?.();
    expect(begun).toEqual(["1", "2", "3"]);
  });

  test("goes through much that ends as soon as it begins", () => {
    const { loop, turn } = handTurned();
    const queue = new FairQueue({ ...limits, waiting: 1e5, waitingPerAddress: 1e5 }, loop);
    const { ends, take } = pieces(queue);
    for (let i = 0; i < 2; i++) take("a");
    let ended = 0;
    const begin = (done: () => void): void => {
      ended++;
      done();
    };
    for (let i = 0; i < 10_000; i++) queue.take({ address: "a", begin, giveWay: () => {} });
    ends[0]?.();
    turn();
    expect(ended).toBe(10_000);
  });

  test("begins few works of an address in one pass of the event loop, and those of another beside them", () => {
    const { loop, passes } = handTurned();
    const queue = new FairQueue(manyAtOnce, loop);
    const begun: string[] = [];
    const take = (address: string): void => {
      const begin = (done: () => void): void => {
        begun.push(address);
        done();
      };
      queue.take({ address, begin, giveWay: () => {} });
    };
    for (let i = 0; i < 10; i++) take("a");
    expect(begun).toHaveLength(4);
    take("b");
    expect(begun.at(-1)).toBe("b");
    passes.shift()?.();
    expect(begun).toHaveLength(9);
    passes.shift()?.();
    expect(begun).toHaveLength(11);
    passes.shift()?.();
    expect(passes).toHaveLength(0);
  });

  test("begins no more in one pass of the event loop for many addresses than for a few", () => {
    const { loop, turn } = handTurned();
    const { begun, take } = pieces(new FairQueue(manyAtOnce, loop));
    for (let i = 0; i < 200; i++) take(`${i % 50}`);
    expect(begun).toHaveLength(32);
    turn();
    expect(begun).toHaveLength(200);
  });

  test("never has more under way than it may, and ends with all that it took", () => {
    const step = fc.record({ address: fc.constantFrom("a", "b", "c"), ends: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const { loop, passes } = handTurned();
        const queue = new FairQueue(limits, loop);
        let underWay: { piece: Piece; done: () => void }[] = [];
        let [taken, done] = [0, 0];
        const finish = (): void => {
          const work = underWay.shift();
          if (work) done++;
          work?.done();
          passes.shift()?.();
        };
        for (const { address, ends } of steps) {
          const piece: Piece = {
            address,
            begin: (end) => void underWay.push({ piece, done: end }),
            giveWay: () => {
              taken--;
              underWay = underWay.filter((each) => each.piece !== piece);
            },
          };
          if (!queue.take(piece)) taken++;
          const own = underWay.filter((each) => each.piece.address === address).length;
          expect(underWay.length).toBeLessThanOrEqual(limits.atWork);
          expect(own).toBeLessThanOrEqual(limits.atWorkPerAddress);
          for (let i = 0; i < ends; i++) finish();
        }
        while (underWay.length > 0) finish();
        expect(done).toBe(taken);
      }),
    );
  });
});

describe("at the bound of all, with work that never ends,", () => {
  /** As many strangers at work as may be, each at an address of its own, and as many as may wait. */
  function saturated(addressOf: (i: number) => string, atWork = 8, waiting = 32) {
    const turned = handTurned();
    const wide = {
      atWork,
      atWorkPerAddress: 4,
      waiting,
      waitingPerAddress: 16,
      inOnePass,
      patience,
    };
    const played = pieces(new FairQueue(wide, turned.loop));
    let strangers = 0;
    const come = (count: number): void => {
      for (let i = 0; i < count; i++) {
        played.take(addressOf(strangers), `stranger ${strangers}`);
        strangers++;
      }
      turned.turn();
    };
    come(atWork + waiting);
    return { ...turned, ...played, come };
  }

  const inOneSite = (i: number) => `2001:db8:1:${i.toString(16)}::/64`;
  const inManySites = (i: number) => `2001:db8:${i.toString(16)}:1::/64`;

  test("thousands of addresses of one site give way to a newcomer from another at once", () => {
    const { begun, gone, take, come } = saturated(inOneSite);
    expect(take("192.0.2.1", "newcomer")).toBeUndefined();
    expect(begun).toContain("newcomer");
    come(4000);
    expect(gone).not.toContain("newcomer");
  });

  test("thousands of addresses of one site take no turn from an address with several", () => {
    const { begun, gone, take, come, elapse } = saturated(inOneSite);
    for (let i = 0; i < 4; i++) take("192.0.2.1", "gateway");
    expect(begun.filter((name) => name === "gateway")).toHaveLength(4);
    come(4000);
    elapse(patience - 1);
    expect(gone).not.toContain("gateway");
  });

  test("an address with several gives way to others of its own network, until it has one", () => {
    const { begun, gone, take } = saturated(() => "192.0.2.1", 4, 4);
    for (const i of [2, 3, 4, 5]) take(`192.0.2.${i}`, `neighbour ${i}`);
    expect(begun.slice(4)).toEqual(["neighbour 2", "neighbour 3", "neighbour 4"]);
    const underWay = gone.filter((name) => Number(name.split(" ")[1]) < 4);
    expect(underWay).toEqual(["stranger 0", "stranger 1", "stranger 2"]);
  });

  test("a network gives turns to another until both have as much", () => {
    const { begun, gone, take } = saturated((i) => `192.0.2.${i}`, 4, 4);
    for (let i = 0; i < 4; i++) take(`198.51.100.${i}`, "other");
    expect(begun.slice(4)).toEqual(["other", "other"]);
    expect(gone).not.toContain("other");
  });

  test("an address that may begin no more takes no turn from a network with more", () => {
    const { gone, take } = saturated(inOneSite, 12, 16);
    for (let i = 0; i < 6; i++) take("192.0.2.1", "gateway");
    const underWay = gone.filter((name) => Number(name.split(" ")[1]) < 12);
    expect(underWay).toHaveLength(4);
  });

  test("those of as many sites let a newcomer in, and keep it for no longer than a round of all that wait", () => {
    const { begun, take, elapse } = saturated(inManySites);
    expect(take("192.0.2.1", "newcomer")).toBeUndefined();
    elapse(1.5 * patience * (32 / 8));
    expect(begun).toContain("newcomer");
  });

  test("nobody gives way before the patience is over, so that a herd does not undo itself", () => {
    const { begun, gone, elapse } = saturated(inManySites, 8, 1000);
    elapse(patience / 2);
    expect([begun.length, gone]).toEqual([8, []]);
  });

  test("an address that has work under way takes no turn from others", () => {
    const { begun, take, elapse } = saturated((i) => `${i}`, 8, 0);
    for (let i = 0; i < 3; i++) take("0", "more");
    elapse(10 * patience);
    expect(begun).toHaveLength(8);
  });

  test("time is looked at only while something waits", () => {
    const { ends, elapse, timers } = saturated(inManySites, 2, 1);
    elapse(3 * patience);
    for (const end of [...ends]) end();
    elapse(patience);
    expect(timers()).toBe(0);
  });
});

test("a saturated queue of thousands of addresses is gone through once for each that begins", () => {
  const { loop, turn } = handTurned();
  const large = {
    atWork: 64,
    atWorkPerAddress: 4,
    waiting: 6000,
    waitingPerAddress: 4,
    inOnePass,
    patience,
  };
  const { take, ends, begun } = pieces(new FairQueue(large, loop));
  for (let i = 0; i < 5064; i++) take(`${i}`);
  for (let i = 0; i < 5064; i++) {
    ends[i]?.();
    turn();
  }
  expect(begun).toHaveLength(5064);
});
