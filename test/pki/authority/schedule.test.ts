import fc from "fast-check";
import { expect, test } from "vitest";
import { firstSchedule, type Phase, phaseAt } from "../../../src/pki/authority/schedule.ts";
import { addSeconds, leafValidity } from "../../../src/pki/x509/validity.ts";

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
  expect(phaseAt(schedule, instant(at))).toBe(phase);
});

test("a millisecond before its publication the phase is future", () => {
  expect(phaseAt(schedule, new Date(schedule.publishedFrom.getTime() - 1))).toBe("future");
});

test("an authority that signs from its publication is never in the phase published", () => {
  const { signsUntil, retiresAt, publishedFrom } = schedule;
  const phases = { publishedFrom, signsFrom: publishedFrom, signsUntil, retiresAt };
  expect(phaseAt(phases, publishedFrom)).toBe("signing");
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
      const { publishedFrom, signsFrom, signsUntil, retiresAt } = firstSchedule(phases, now);
      expect(publishedFrom.getTime()).toBe(Math.floor(now.getTime() / 1000) * 1000);
      expect(phaseAt({ publishedFrom, signsFrom, signsUntil, retiresAt }, now)).toBe("published");
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
      const { publishedFrom, signsFrom, signsUntil, retiresAt } = firstSchedule(phases, now);
      const signing = signsUntil.getTime() - signsFrom.getTime();
      const issuedAt = new Date(signsFrom.getTime() + (n % signing));
      const longest = phases.longestLeafSeconds;
      const { notAfter } = leafValidity(
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
