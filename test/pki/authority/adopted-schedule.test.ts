import fc from "fast-check";
import { expect, test } from "vitest";
import {
  adoptedSchedule,
  leadSeconds,
  nextSchedule,
  phaseAt,
} from "../../../src/pki/authority/schedule.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type Phases, phasesOf, second, shortLengths } from "../../testkit/ca/timeline.ts";

const adopted = (expiresAt: number, now = 0): Phases =>
  phasesOf(adoptedSchedule(shortLengths, second(expiresAt), second(now)));

test.each<[string, number, Phases]>([
  ["of ten years signs as long as one of its own would", 100_000, [0, 0, 1000, 1110]],
  ["that lasts exactly so long does as well", 1110, [0, 0, 1000, 1110]],
  ["stops for its last leaf to expire before it does", 1109, [0, 0, 999, 1109]],
  ["stops as soon as a successor can sign, at the earliest", 240, [0, 0, 130, 240]],
  ["too old for that signs until then, and is trusted to its end", 239, [0, 0, 130, 239]],
  ["signs and is trusted to its end when that comes first", 130, [0, 0, 130, 130]],
  ["signs to its end when no successor can be in time", 60, [0, 0, 60, 60]],
])("an adopted authority %s", (_, expiresAt, expected) => {
  expect(adopted(expiresAt)).toEqual(expected);
});

test("its schedule begins with the second of the adoption", () => {
  expect(adopted(100_000, 7.999)).toEqual([7, 7, 1007, 1117]);
});

test.each([-1, 0, -1000])(
  "one that has expired, by %d s, never signs and is never published",
  (by) => {
    const schedule = adoptedSchedule(shortLengths, second(by), second(0));
    for (const now of [-2000, by, -1, 0, 1, 500]) {
      expect(["future", "retired"]).toContain(phaseAt(schedule, second(now)));
    }
  },
);

const lengths = fc.record({
  propagationSeconds: fc.integer({ min: 0, max: 3600 }),
  longestLeafSeconds: fc.integer({ min: 1, max: 10 ** 7 }),
  signingSeconds: fc.integer({ min: 1, max: 10 ** 8 }),
});
const remaining = fc.integer({ min: 1, max: 10 ** 9 });

test("whatever the lengths, the phases come in order, begin now, and end with the certificates", () => {
  fc.assert(
    fc.property(lengths, remaining, (phases, seconds) => {
      const schedule = adoptedSchedule(phases, second(seconds), second(0));
      const inOrder = phasesOf(schedule);
      expect(inOrder.toSorted((a, b) => a - b)).toEqual(inOrder);
      expect(phaseAt(schedule, second(0))).toBe("signing");
      expect(schedule.retiresAt <= second(seconds)).toBe(true);
    }),
  );
});

test("with time enough, its last leaf expires before it does, and its successor is known in time", () => {
  fc.assert(
    fc.property(lengths, remaining, (phases, beyond) => {
      const overlap = phases.longestLeafSeconds + phases.propagationSeconds;
      const enough = leadSeconds(phases) + phases.propagationSeconds + overlap;
      fc.pre(phases.signingSeconds >= leadSeconds(phases) + phases.propagationSeconds);
      const schedule = adoptedSchedule(phases, second(enough + beyond), second(0));
      expect(schedule.retiresAt).toEqual(addSeconds(schedule.signsUntil, overlap));
      const successor = nextSchedule(phases, schedule.signsUntil, second(0));
      expect(successor.signsFrom).toEqual(addSeconds(successor.publishedFrom, overlap));
      expect(successor.signsFrom <= schedule.signsUntil).toBe(true);
    }),
  );
});
