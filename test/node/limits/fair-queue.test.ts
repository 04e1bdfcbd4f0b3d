import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FairQueue } from "../../../src/node/limits/fair-queue.ts";

const limits = { atWork: 3, atWorkPerAddress: 2, waiting: 4, waitingPerAddress: 3 };

/** Work whose end a test decides. */
function pieces(queue: FairQueue) {
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const take = (address: string, name = address) =>
    queue.take(address, (done) => {
      begun.push(name);
      ends.push(done);
    });
  return { begun, ends, take };
}

describe("a fair queue", () => {
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
    const queue = new FairQueue({ ...limits, atWorkPerAddress: 3 });
    const events: string[] = [];
    const take = (name: string): void => {
      let end = (): void => {};
      const begin = (done: () => void): void => {
        events.push(`${name} begins`);
        end = done;
      };
      const giveWay = (): void => {
        events.push(`${name} gives way`);
        end();
      };
      queue.take(name.slice(0, 1), begin, giveWay);
    };
    for (const name of ["a1", "a2", "a3", "a4", "b1"]) take(name);
    expect(events.slice(3)).toEqual(["a1 gives way", "b1 begins"]);
    // Now one of each gives nothing to a third, whose address would be left with no less than theirs.
    take("b2");
    expect(events).toHaveLength(5);
  });

  test("has an address with most that waits give way to one with less", () => {
    const queue = new FairQueue(limits);
    const gone: string[] = [];
    const take = (name: string) =>
      queue.take(
        name.slice(0, 1),
        () => {},
        () => gone.push(name),
      );
    for (const name of ["a1", "a2", "b1", "a3", "a4", "a5", "b2"]) take(name);
    expect(gone).toEqual([]);
    expect(take("c1")).toBeUndefined();
    expect(gone).toEqual(["a3", "a1"]);
    expect(take("c2")).toBe("all");
  });

  test("takes no more of an address than may wait, nor in all", () => {
    const { take } = pieces(new FairQueue(limits));
    expect(Array.from({ length: 6 }, () => take("a"))[5]).toBe("address");
    expect([take("b"), take("b"), take("b")]).toEqual([undefined, undefined, "all"]);
  });

  test("does not count an end that is told twice", () => {
    const { begun, ends, take } = pieces(new FairQueue(limits));
    for (const name of ["1", "2", "3", "4"]) take("a", name);
    ends[0]?.();
    ends[0]?.();
    expect(begun).toEqual(["1", "2", "3"]);
  });

  test("goes through much that ends as soon as it begins", () => {
    const passes: (() => void)[] = [];
    const large = { ...limits, waiting: 1e5, waitingPerAddress: 1e5 };
    const queue = new FairQueue(large, (resume) => passes.push(resume));
    const held: (() => void)[] = [];
    for (let i = 0; i < 2; i++) queue.take("a", (done) => held.push(done));
    let ended = 0;
    for (let i = 0; i < 10_000; i++) {
      queue.take("a", (done) => {
        ended++;
        done();
      });
    }
    held[0]?.();
    while (passes.length > 0) passes.shift()?.();
    expect(ended).toBe(10_000);
  });

  test("begins few works of an address in one pass of the event loop, and those of another beside them", () => {
    const passes: (() => void)[] = [];
    const large = { atWork: 100, atWorkPerAddress: 100, waiting: 100, waitingPerAddress: 100 };
    const queue = new FairQueue(large, (resume) => passes.push(resume));
    const begun: string[] = [];
    const take = (address: string): void => {
      queue.take(address, (done) => {
        begun.push(address);
        done();
      });
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
    const passes: (() => void)[] = [];
    const large = { atWork: 999, atWorkPerAddress: 999, waiting: 999, waitingPerAddress: 999 };
    const queue = new FairQueue(large, (resume) => passes.push(resume));
    let begun = 0;
    for (let i = 0; i < 200; i++) queue.take(`${i % 50}`, () => void begun++);
    expect(begun).toBe(32);
    while (passes.length > 0) passes.shift()?.();
    expect(begun).toBe(200);
  });

  test("never has more under way than it may, and ends with all that it took", () => {
    const step = fc.record({ address: fc.constantFrom("a", "b", "c"), ends: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const passes: (() => void)[] = [];
        const queue = new FairQueue(limits, (resume) => passes.push(resume));
        const underWay: { address: string; done: () => void }[] = [];
        let [taken, done] = [0, 0];
        const finish = (): void => {
          const work = underWay.shift();
          if (work) done++;
          work?.done();
          passes.shift()?.();
        };
        for (const { address, ends } of steps) {
          const refused = queue.take(address, (end) => underWay.push({ address, done: end }));
          if (!refused) taken++;
          const own = underWay.filter((each) => each.address === address).length;
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
