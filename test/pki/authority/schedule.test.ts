import fc from "fast-check";
import { expect, test } from "vitest";
import { adoptedSchedule } from "../../../src/pki/authority/adopted-schedule.ts";
import { type Phase, Schedule } from "../../../src/pki/authority/schedule.ts";
import { addSeconds, Validity } from "../../../src/pki/x509/validity.ts";
import { type Phases, phasesOf, second, shortLengths } from "../../testkit/ca/timeline.ts";

const instant = (text: string): Date => new Date(`2026-01-${text}Z`);

const schedule = {
  publishedFrom: instant("01T00:00:00.000"),
  signsFrom: instant("02T00:00:00.000"),
  signsUntil: instant("03T00:00:00.000"),
  retiresAt: instant("04T00:00:00.000"),
};

const boundaries: readonly [string, Phase][] = [
  ["01T00:00:00.000", "published"],
  ["01T23:59:59.999", "published"],
  ["02T00:00:00.000", "signing"],
  ["02T23:59:59.999", "signing"],
  ["03T00:00:00.000", "verifying"],
  ["03T23:59:59.999", "verifying"],
  ["04T00:00:00.000", "retired"],
  ["31T00:00:00.000", "retired"],
];

test.each(boundaries)("at %s the phase is %s", (at, phase) => {
  expect(Schedule.phaseAt(schedule, instant(at))).toBe(phase);
});

test("a millisecond before its publication the phase is future", () => {
  expect(Schedule.phaseAt(schedule, new Date(schedule.publishedFrom.getTime() - 1))).toBe("future");
});

test("an authority that signs from its publication is never in the phase published", () => {
  const { signsUntil, retiresAt, publishedFrom } = schedule;
  const phases = { publishedFrom, signsFrom: publishedFrom, signsUntil, retiresAt };
  expect(Schedule.phaseAt(phases, publishedFrom)).toBe("signing");
});

const seconds = fc.integer({ min: 1, max: 10 ** 8 });
const lengths = fc.record({
  propagationSeconds: seconds,
  longestLeafSeconds: seconds,
  signingSeconds: seconds,
});
const instants = fc.date({
  min: new Date("1970-01-02"),
  max: new Date("2500-01-01"),
  noInvalidDate: true,
});

test("a first schedule begins with the current second, and its phases are in order", () => {
  fc.assert(
    fc.property(lengths, instants, (phases, now) => {
      const { publishedFrom, signsFrom, signsUntil, retiresAt } = Schedule.first(phases, now);
      expect(publishedFrom.getTime()).toBe(Math.floor(now.getTime() / 1000) * 1000);
      expect(Schedule.phaseAt({ publishedFrom, signsFrom, signsUntil, retiresAt }, now)).toBe(
        "published",
      );
      const everyReaderKnows = addSeconds(publishedFrom, phases.propagationSeconds);
      expect(signsFrom.getTime()).toBeGreaterThanOrEqual(everyReaderKnows.getTime());
      expect(signsUntil).toEqual(addSeconds(signsFrom, phases.signingSeconds));
      expect(retiresAt.getTime()).toBeGreaterThan(signsUntil.getTime());
    }),
  );
});

test("the last leaf of an authority has its full validity and expires before the root leaves", () => {
  fc.assert(
    fc.property(lengths, instants, fc.nat(), (phases, now, n) => {
      const { publishedFrom, signsFrom, signsUntil, retiresAt } = Schedule.first(phases, now);
      const signing = signsUntil.getTime() - signsFrom.getTime();
      const issuedAt = new Date(signsFrom.getTime() + (n % signing));
      const longest = phases.longestLeafSeconds;
      const { notAfter } = Validity.ofLeaf(
        BigInt(longest),
        { defaultSeconds: longest, maximumSeconds: longest },
        { notBefore: publishedFrom, notAfter: retiresAt },
        issuedAt,
      );
      expect(notAfter.getTime()).toBeLessThan(retiresAt.getTime());
      expect(notAfter.getTime()).toBeGreaterThan(issuedAt.getTime() + (longest - 1) * 1000);
    }),
  );
});

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
      expect(["future", "retired"]).toContain(Schedule.phaseAt(schedule, second(now)));
    }
  },
);

const anyLengths = fc.record({
  propagationSeconds: fc.integer({ min: 0, max: 3600 }),
  longestLeafSeconds: fc.integer({ min: 1, max: 10 ** 7 }),
  signingSeconds: fc.integer({ min: 1, max: 10 ** 8 }),
});
const remaining = fc.integer({ min: 1, max: 10 ** 9 });

test("the phases are in order, begin now, and end by the expiry, for any lengths", () => {
  fc.assert(
    fc.property(anyLengths, remaining, (phases, seconds) => {
      const schedule = adoptedSchedule(phases, second(seconds), second(0));
      const inOrder = phasesOf(schedule);
      expect(inOrder.toSorted((a, b) => a - b)).toEqual(inOrder);
      expect(Schedule.phaseAt(schedule, second(0))).toBe("signing");
      expect(schedule.retiresAt <= second(seconds)).toBe(true);
    }),
  );
});

test("with enough time, the last leaf expires first, and every verifier knows the successor", () => {
  fc.assert(
    fc.property(anyLengths, remaining, (phases, beyond) => {
      const overlap = phases.longestLeafSeconds + phases.propagationSeconds;
      const enough = Schedule.leadSeconds(phases) + phases.propagationSeconds + overlap;
      fc.pre(phases.signingSeconds >= Schedule.leadSeconds(phases) + phases.propagationSeconds);
      const schedule = adoptedSchedule(phases, second(enough + beyond), second(0));
      expect(schedule.retiresAt).toEqual(addSeconds(schedule.signsUntil, overlap));
      const successor = Schedule.next(phases, schedule.signsUntil, second(0));
      expect(successor.signsFrom).toEqual(addSeconds(successor.publishedFrom, overlap));
      expect(successor.signsFrom <= schedule.signsUntil).toBe(true);
    }),
  );
});

/** An intermediate of another CA, installed at 0, as seconds. */
const installed = (rootSince: number | undefined, othersSignUntil: number | undefined): Phases =>
  phasesOf(
    Schedule.installed(
      { propagationSeconds: 10, longestLeafSeconds: 100, signingSeconds: 1 },
      {
        expiresAt: second(1000),
        rootSince: rootSince === undefined ? undefined : second(rootSince),
        othersSignUntil: othersSignUntil === undefined ? undefined : second(othersSignUntil),
      },
      second(0),
    ),
  );

test.each<[string, number | undefined, number | undefined, Phases]>([
  [
    "the first one signs when two that were installed at once are visible",
    undefined,
    undefined,
    [0, 20, 890, 1000],
  ],
  [
    "one under a new root signs when every live bundle has it",
    undefined,
    900,
    [10, 120, 890, 1000],
  ],
  [
    "one under a root that came lately waits for the rest of that time",
    -50,
    900,
    [10, 60, 890, 1000],
  ],
  ["one under a known root signs when every reader sees it", -500, 900, [10, 10, 890, 1000]],
  ["a late one signs when the last of the others stops", undefined, 70, [10, 70, 890, 1000]],
  ["a very late one signs when every reader sees it", undefined, 3, [10, 10, 890, 1000]],
])("of intermediates, %s", (_, rootSince, othersSignUntil, expected) => {
  expect(installed(rootSince, othersSignUntil)).toEqual(expected);
});

test("a signer joins a mesh as a successor does: it signs when every live bundle has its root", () => {
  const lengths = { propagationSeconds: 10, longestLeafSeconds: 100, signingSeconds: 500 };
  expect(phasesOf(Schedule.joining(lengths, second(0)))).toEqual([10, 120, 620, 730]);
});
