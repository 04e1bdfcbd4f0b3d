import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CallerAddress } from "../../../src/foundation/shares.ts";
import { FairQueue, type Loop, type Work } from "../../../src/node/limits/fair-queue.ts";

const timeLimit = 1000;
const inOneTick = { all: 32, address: 4 };
const limits = {
  underWay: 3,
  underWayPerAddress: 2,
  waiting: 4,
  waitingPerAddress: 3,
  inOneTick,
  timeLimit,
};

const manyAtOnce = {
  ...limits,
  underWay: 999,
  underWayPerAddress: 999,
  waiting: 999,
  waitingPerAddress: 999,
};

/** A loop that a test turns. */
function handTurned() {
  const passes: (() => void)[] = [];
  let timers: { readonly at: number; readonly resume: () => void }[] = [];
  let now = 0;
  const loop: Loop = {
    clock: () => now,
    afterTick: (resume) => void passes.push(resume),
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
function worksOf(queue: FairQueue) {
  const begun: string[] = [];
  const gone: string[] = [];
  const ends: (() => void)[] = [];
  const workOf = (address: string, name = address): Work => ({
    address,
    begin: (done) => {
      begun.push(name);
      ends.push(done);
    },
    shed: () => gone.push(name),
  });
  const take = (address: string, name = address) => queue.take(workOf(address, name));
  return { begun, gone, ends, workOf, take };
}

describe("a fair queue", () => {
  test("gives a gateway as many turns as one address has, and each caller behind it a quarter of those", () => {
    const { loop, turn } = handTurned();
    const of = (caller: string) => CallerAddress.behind("gateway", caller);
    const bounds = { ...manyAtOnce, underWayPerAddress: 8 };
    const { begun, ends, take } = worksOf(new FairQueue(() => bounds, loop));
    const names = (count: number, name: string) => Array.from({ length: count }, () => name);
    for (let i = 0; i < 20; i++) take(of("10.0.0.1"), "flood");
    turn();
    expect(begun).toEqual(names(2, "flood"));
    for (let i = 2; i < 12; i++) take(of(`10.0.${i}.1`), "others");
    turn();
    expect(begun.splice(0)).toEqual([...names(2, "flood"), ...names(6, "others")]);
    take(of("10.9.0.1"), "honest");
    take("192.0.2.1", "straight");
    ends[0]?.();
    turn();
    expect(begun.slice(0, 2).sort()).toEqual(["others", "straight"]);
  });

  test("begins waiting work within half the time limit after a bound was raised", () => {
    const { loop, turn, elapse } = handTurned();
    const changing = { ...limits, underWay: 1 };
    const { begun, gone, take } = worksOf(new FairQueue(() => changing, loop));
    for (const address of ["a", "b", "c"]) take(address);
    turn();
    changing.underWay = 2;
    elapse(timeLimit / 2);
    expect(begun).toEqual(["a", "b"]);
    expect(gone).toEqual([]);
  });

  test("applies a time limit that was shortened to work that already waits", () => {
    const { loop, turn, elapse } = handTurned();
    const changing = { ...limits, underWay: 1, timeLimit: 1000 * timeLimit };
    const { begun, take } = worksOf(new FairQueue(() => changing, loop));
    for (const address of ["a", "b"]) take(address);
    turn();
    changing.timeLimit = timeLimit;
    elapse(2 * timeLimit);
    expect(begun).toEqual(["a", "b"]);
  });

  test("after a bound was lowered, ends one work for a new address, and begins no other before enough work has ended", () => {
    const { loop, turn, elapse } = handTurned();
    const changing = {
      ...limits,
      underWay: 8,
      underWayPerAddress: 8,
      inOneTick: { all: 32, address: 8 },
    };
    const { begun, gone, ends, take } = worksOf(new FairQueue(() => changing, loop));
    for (let i = 0; i < 8; i++) take("a");
    turn();
    changing.underWay = 2;
    take("b");
    take("a", "late");
    elapse(timeLimit);
    expect(gone).toEqual(["a"]);
    expect(begun.slice(8)).toEqual(["b"]);
    for (const end of ends.slice(1, 7)) end();
    expect(begun.slice(8)).toEqual(["b"]);
    ends[7]?.();
    expect(begun.slice(8)).toEqual(["b", "late"]);
  });

  test("gives a free turn to the address with the least work under way", () => {
    const { begun, ends, take } = worksOf(new FairQueue(() => limits));
    for (const name of ["1", "2", "3", "4", "5"]) take("a", name);
    take("b");
    expect(begun).toEqual(["1", "2", "b"]);
    take("c");
    ends[0]?.();
    expect(begun).toEqual(["1", "2", "b", "c"]);
    ends[1]?.();
    expect(begun).toEqual(["1", "2", "b", "c", "3"]);
  });

  test("gives turns to equal addresses in turns", () => {
    const { begun, ends, take } = worksOf(new FairQueue(() => ({ ...limits, underWay: 1 })));
    for (const name of ["a1", "a2", "a3", "b1", "b2"]) take(name.slice(0, 1), name);
    for (let i = 0; i < 5; i++) ends[i]?.();
    expect(begun).toEqual(["a1", "a2", "b1", "a3", "b2"]);
  });

  test("counts no end of work that has lost its turn", () => {
    const { begun, gone, ends, take } = worksOf(new FairQueue(() => limits));
    for (const name of ["a1", "a2", "b1", "c1"]) take(name.slice(0, 1), name);
    expect(gone).toEqual(["a1"]);
    ends[0]?.();
    for (const name of ["a3", "a4"]) take("a", name);
    for (const end of ends.slice(2)) end();
    expect(begun.slice(4)).toEqual(["a3"]);
  });

  test("ends work of the address with the most under way, for an address with none", () => {
    const { begun, gone, take } = worksOf(
      new FairQueue(() => ({ ...limits, underWayPerAddress: 3 })),
    );
    for (const name of ["a1", "a2", "a3", "a4", "b1"]) take(name.slice(0, 1), name);
    expect([begun, gone]).toEqual([["a1", "a2", "a3", "b1"], ["a1"]]);
    // Now one of each gives nothing to a third, whose address would be left with no less than theirs.
    take("b", "b2");
    expect(gone).toHaveLength(1);
  });

  test("when the queue is full, drops waiting work of the address with the most, for an address with less", () => {
    const { gone, take } = worksOf(new FairQueue(() => ({ ...limits, underWayPerAddress: 1 })));
    for (const name of ["a1", "b1", "c1", "a2", "a3", "b2", "c2"]) take(name.slice(0, 1), name);
    expect(gone).toEqual([]);
    expect(take("d", "d1")).toBeUndefined();
    expect(gone).toEqual(["a2"]);
    expect([take("d", "d2"), take("b", "b3")]).toEqual(["all", "all"]);
  });

  test("when the queue is full, drops the oldest waiting work for an address that has none waiting", () => {
    const { gone, take } = worksOf(new FairQueue(() => ({ ...limits, underWay: 1 })));
    for (const name of ["a", "b", "c", "d", "e"]) take(name);
    expect(take("f")).toBeUndefined();
    expect(gone).toEqual(["b"]);
  });

  test("refuses work beyond the bound of waiting work, of one address and of all together", () => {
    const { take } = worksOf(new FairQueue(() => limits));
    expect(Array.from({ length: 6 }, () => take("a"))[5]).toBe("address");
    for (const name of ["b1", "b2", "b3"]) expect(take("b", name)).toBeUndefined();
    expect(take("b")).toBe("all");
  });

  test("never begins work that was withdrawn, and gives its place in the queue to other work", () => {
    const queue = new FairQueue(() => ({ ...limits, waiting: 1 }));
    const { begun, ends, workOf, take } = worksOf(queue);
    for (const name of ["1", "2"]) take("a", name);
    const waiting = workOf("a", "3");
    expect([queue.take(waiting), take("a", "4")]).toEqual([undefined, "all"]);
    queue.withdraw(waiting);
    queue.withdraw(waiting);
    expect([take("a", "5"), take("a", "6")]).toEqual([undefined, "all"]);
    for (const end of [...ends]) end();
    expect(begun).toEqual(["1", "2", "5"]);
  });

  test("ignores the withdrawal of work under way, and of work that it never took", () => {
    const queue = new FairQueue(() => limits);
    const { begun, workOf, take } = worksOf(queue);
    const [first, other] = [workOf("a", "1"), workOf("b")];
    queue.take(first);
    queue.withdraw(first);
    queue.withdraw(other);
    for (const name of ["2", "3"]) take("a", name);
    expect(begun).toEqual(["1", "2"]);
  });

  test("finishes ten thousand works that each end as soon as they begin", () => {
    const { loop, turn } = handTurned();
    const queue = new FairQueue(() => ({ ...limits, waiting: 1e5, waitingPerAddress: 1e5 }), loop);
    const { ends, take } = worksOf(queue);
    for (let i = 0; i < 2; i++) take("a");
    let ended = 0;
    const begin = (done: () => void): void => {
      ended++;
      done();
    };
    for (let i = 0; i < 10_000; i++) queue.take({ address: "a", begin, shed: () => {} });
    ends[0]?.();
    turn();
    expect(ended).toBe(10_000);
  });

  test("begins at most four works of one address in a pass of the event loop, and does not delay other addresses by that", () => {
    const { loop, passes } = handTurned();
    const queue = new FairQueue(() => manyAtOnce, loop);
    const begun: string[] = [];
    const take = (address: string): void => {
      const begin = (done: () => void): void => {
        begun.push(address);
        done();
      };
      queue.take({ address, begin, shed: () => {} });
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

  test("begins at most 32 works in a pass of the event loop, however many addresses ask", () => {
    const { loop, turn } = handTurned();
    const { begun, take } = worksOf(new FairQueue(() => manyAtOnce, loop));
    for (let i = 0; i < 200; i++) take(`${i % 50}`);
    expect(begun).toHaveLength(32);
    turn();
    expect(begun).toHaveLength(200);
  });

  test("never exceeds its bounds, and finishes all work that it took and did not drop", () => {
    const step = fc.record({ address: fc.constantFrom("a", "b", "c"), ends: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const { loop, passes } = handTurned();
        const queue = new FairQueue(() => limits, loop);
        let underWay: { work: Work; done: () => void }[] = [];
        let [taken, done] = [0, 0];
        const finish = (): void => {
          const ended = underWay.shift();
          if (ended) done++;
          ended?.done();
          passes.shift()?.();
        };
        for (const { address, ends } of steps) {
          const work: Work = {
            address,
            begin: (end) => void underWay.push({ work, done: end }),
            shed: () => {
              taken--;
              underWay = underWay.filter((each) => each.work !== work);
            },
          };
          if (!queue.take(work)) taken++;
          const own = underWay.filter((each) => each.work.address === address).length;
          expect(underWay.length).toBeLessThanOrEqual(limits.underWay);
          expect(own).toBeLessThanOrEqual(limits.underWayPerAddress);
          for (let i = 0; i < ends; i++) finish();
        }
        while (underWay.length > 0) finish();
        expect(done).toBe(taken);
      }),
    );
  });
});

describe("while every turn is taken by work that never ends,", () => {
  /** As many strangers at work as may be, each at an address of its own, and as many as may wait. */
  function saturated(addressOf: (i: number) => string, underWay = 8, waiting = 32) {
    const turned = handTurned();
    const wide = { ...limits, underWay, underWayPerAddress: 4, waiting, waitingPerAddress: 16 };
    const played = worksOf(new FairQueue(() => wide, turned.loop));
    let strangers = 0;
    const come = (count: number): void => {
      for (let i = 0; i < count; i++) {
        played.take(addressOf(strangers), `stranger ${strangers}`);
        strangers++;
      }
      turned.turn();
    };
    come(underWay + waiting);
    return { ...turned, ...played, come };
  }

  const inOneNetwork = (i: number) => `2001:db8:1:${i.toString(16)}::/64`;
  const inManyNetworks = (i: number) => `2001:db8:${i.toString(16)}:1::/64`;

  test("an address of another network gets several turns at once, and thousands of addresses of one network take none back", () => {
    const { begun, gone, take, come, elapse } = saturated(inOneNetwork);
    for (let i = 0; i < 4; i++) expect(take("192.0.2.1", "newcomer")).toBeUndefined();
    expect(begun.filter((name) => name === "newcomer")).toHaveLength(4);
    come(4000);
    elapse(timeLimit - 1);
    expect(gone).not.toContain("newcomer");
  });

  test("an address with several turns gives them up to other addresses of its network, all but one", () => {
    const { begun, gone, take } = saturated(() => "192.0.2.1", 4, 4);
    for (const i of [2, 3, 4, 5]) take(`192.0.2.${i}`, `neighbour ${i}`);
    expect(begun.slice(4)).toEqual(["neighbour 2", "neighbour 3", "neighbour 4"]);
    const underWay = gone.filter((name) => Number(name.split(" ")[1]) < 4);
    expect(underWay).toEqual(["stranger 0", "stranger 1", "stranger 2"]);
  });

  test("a network gives up turns to another network until both have the same number", () => {
    const { begun, gone, take } = saturated((i) => `192.0.2.${i}`, 4, 4);
    for (let i = 0; i < 4; i++) take(`198.51.100.${i}`, "other");
    expect(begun.slice(4)).toEqual(["other", "other"]);
    expect(gone).not.toContain("other");
  });

  test("an address at its own bound takes no further turn, even from a network that has more", () => {
    const { gone, take } = saturated(inOneNetwork, 12, 16);
    for (let i = 0; i < 6; i++) take("192.0.2.1", "gateway");
    const underWay = gone.filter((name) => Number(name.split(" ")[1]) < 12);
    expect(underWay).toHaveLength(4);
  });

  test("a new address waits no longer than until each network that waits has had one turn", () => {
    const { begun, take, elapse } = saturated(inManyNetworks);
    expect(take("192.0.2.1", "newcomer")).toBeUndefined();
    elapse(1.5 * timeLimit * (32 / 8));
    expect(begun).toContain("newcomer");
  });

  test("callers of many networks that arrive at once keep their turns until the time limit is over", () => {
    const { begun, gone, elapse } = saturated(inManyNetworks, 8, 1000);
    elapse(timeLimit / 2);
    expect([begun.length, gone]).toEqual([8, []]);
  });

  test("an address with work under way ends no work of other addresses, even beyond the time limit", () => {
    const { begun, take, elapse } = saturated((i) => `${i}`, 8, 0);
    for (let i = 0; i < 3; i++) take("0", "more");
    elapse(10 * timeLimit);
    expect(begun).toHaveLength(8);
  });

  test("the queue has a timer only while work waits", () => {
    const { ends, elapse, timers } = saturated(inManyNetworks, 2, 1);
    elapse(3 * timeLimit);
    for (const end of [...ends]) end();
    elapse(timeLimit);
    expect(timers()).toBe(0);
  });
});

test("the queue begins the work of all five thousand addresses that wait", () => {
  const { loop, turn } = handTurned();
  const large = { ...manyAtOnce, underWay: 64, underWayPerAddress: 4, waiting: 6000 };
  const { take, ends, begun } = worksOf(new FairQueue(() => large, loop));
  for (let i = 0; i < 5064; i++) take(`${i}`);
  for (let i = 0; i < 5064; i++) {
    ends[i]?.();
    turn();
  }
  expect(begun).toHaveLength(5064);
});
