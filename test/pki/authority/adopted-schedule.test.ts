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
  ["that lasts long enough signs as long as a minted one", 100_000, [0, 0, 1000, 1110]],
  ["that lasts just long enough does too", 1110, [0, 0, 1000, 1110]],
  [
    "that lasts less stops early enough for its last leaf to expire before it does",
    1109,
    [0, 0, 999, 1109],
  ],
  ["does not stop before a successor can sign", 240, [0, 0, 130, 240]],
  [
    "too old for its last leaf still waits for a successor, and is trusted to its end",
    239,
    [0, 0, 130, 239],
  ],
  ["that ends when a successor can sign signs to its end", 130, [0, 0, 130, 130]],
  ["signs to its end when no successor can be in time", 60, [0, 0, 60, 60]],
])("an adopted authority %s", (_, expiresAt, expected) => {
  expect(adopted(expiresAt)).toEqual(expected);
});

test("an adopted schedule begins with the second of the adoption", () => {
  expect(adopted(100_000, 7.999)).toEqual([7, 7, 1007, 1117]);
});

test.each([-1, 0, -1000])(
  "an authority that expires at second %d never signs and is never published",
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

test("the phases are in order, begin now, and end by the expiry, for any lengths", () => {
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

test("with enough time, the last leaf expires first, and every verifier knows the successor", () => {
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
