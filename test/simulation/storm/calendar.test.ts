import fc from "fast-check";
import { expect, test } from "vitest";
import { Calendar } from "./calendar.ts";

const instants = fc.array(fc.double({ min: 0, max: 500, noNaN: true }), {
  minLength: 1,
  maxLength: 200,
});

/** Takes all workloads, and adds each again as often as it is told, later by so much. */
function takeAll(
  calendar: Calendar,
  again: number,
  later: number,
): [at: number, workload: number][] {
  const taken: [number, number][] = [];
  for (let left = again; calendar.size > 0; left--) {
    const at = calendar.earliest;
    const workload = calendar.take();
    taken.push([at, workload]);
    if (left > 0) calendar.add(workload, at + later);
  }
  return taken;
}

test("workloads come in the order of their instants, and equal instants by their numbers", () => {
  fc.assert(
    fc.property(instants, (all) => {
      // A small ring has several turns, and buckets with many workloads.
      const calendar = new Calendar(all.length, 0.5, 16);
      const rounded = all.map((at) => Math.round(at));
      for (const [workload, at] of rounded.entries()) calendar.add(workload, at);
      const expected = rounded.map((at, workload) => [at, workload] as const);
      expect(takeAll(calendar, 0, 0)).toEqual(
        expected.toSorted((a, b) => a[0] - b[0] || a[1] - b[1]),
      );
    }),
  );
});

test("a workload that is added while others are taken comes in its turn, even at once", () => {
  fc.assert(
    fc.property(instants, fc.constantFrom(0, 0.01, 3, 100), (all, later) => {
      const calendar = new Calendar(all.length, 0.5, 16);
      for (const [workload, at] of all.entries()) calendar.add(workload, at);
      const taken = takeAll(calendar, 50, later);
      expect(taken).toHaveLength(all.length + 50);
      const order = taken.map(([at]) => at);
      expect(order).toEqual(order.toSorted((a, b) => a - b));
    }),
  );
});

test("an empty calendar has no earliest instant and gives no workload", () => {
  const calendar = new Calendar(1);
  expect(calendar.earliest).toBe(Number.POSITIVE_INFINITY);
  expect(() => calendar.take()).toThrow(RangeError);
});

test("a ring that is no power of two is refused", () => {
  expect(() => new Calendar(1, 0.01, 1000)).toThrow(RangeError);
});
