import fc from "fast-check";
import { expect, test } from "vitest";
import { CrlLifetime, planCrl } from "../../../src/ca/revocation/crl-plan.ts";
import type { RevocationContent } from "../../../src/custody/record-kinds.ts";
import { Hex } from "../../../src/pki/encoding/bytes.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";

const authority = "a1";
const begin = new Date("2026-11-22T00:00:00Z");
const hour = 3600;
const propagationSeconds = 600;
const lengths = { lifetimeSeconds: 24 * hour, propagationSeconds };

const at = (seconds: number): Date => addSeconds(begin, seconds);
const revocation = (
  seconds: number,
  certificates: Readonly<Record<string, number>>,
  others: Partial<RevocationContent> = {},
): RevocationContent => ({
  authority,
  revokedAt: at(seconds),
  knownFrom: at(seconds + propagationSeconds),
  reason: "keyCompromise",
  certificates: new Map(
    Object.entries(certificates).map(([serial, end]) => [serial, at(end).getTime() / 1000]),
  ),
  ...others,
});
const plan = (revocations: readonly RevocationContent[], seconds: number) =>
  planCrl(authority, revocations, lengths, at(seconds));
const numberOf = (revocations: readonly RevocationContent[], seconds: number): bigint =>
  BigInt(`0x${Hex.format(plan(revocations, seconds).number)}`);
const serialsOf = (revocations: readonly RevocationContent[], seconds: number) =>
  plan(revocations, seconds).revoked.map(({ serialNumber }) => serialNumber);

test("without revocations it is empty, and lasts for a lifetime from the begin of its period", () => {
  const content = plan([], 7 * hour);
  expect(content.revoked).toEqual([]);
  expect(content.thisUpdate).toEqual(at(6 * hour - 120));
  expect(content.nextUpdate).toEqual(at(30 * hour));
});

test("has a revocation from the first look on, backdated as the CRL is", () => {
  const known = [revocation(7 * hour, { "01aa": 20 * hour })];
  const content = plan(known, 7 * hour);
  expect(content.revoked).toEqual([
    { serialNumber: "01aa", revokedAt: at(7 * hour - 120), reason: "keyCompromise" },
  ]);
  expect(content.thisUpdate).toEqual(at(7 * hour - 120));
  expect(content.nextUpdate).toEqual(at(30 * hour));
});

test("does not begin before a revocation in it, whenever that was and whatever clock it was made by", () => {
  const seconds = fc.integer({ min: -12 * hour, max: 12 * hour });
  fc.assert(
    fc.property(fc.array(seconds, { minLength: 1, maxLength: 5 }), seconds, (instants, now) => {
      const known = instants.map((each, i) => revocation(each, { [`01a${i}`]: 500 * hour }));
      const { thisUpdate, revoked } = plan(known, now);
      expect(revoked).toHaveLength(instants.length);
      for (const { revokedAt } of revoked) expect(revokedAt <= thisUpdate).toBe(true);
    }),
  );
});

test("never begins in the future, whatever the clock of the operator", () => {
  const known = [revocation(9 * hour, { "01aa": 20 * hour })];
  expect(plan(known, 7 * hour).thisUpdate).toEqual(at(7 * hour - 120));
});

test("has no certificate of another authority", () => {
  const known = [revocation(0, { "01aa": 20 * hour }, { authority: "b2" })];
  expect(plan(known, 1).revoked).toEqual([]);
  expect(plan(known, 1).number).toEqual(plan([], 1).number);
});

test("lists a certificate once, with the first reason", () => {
  const known = [
    revocation(20, { "01aa": 20 * hour }),
    revocation(10, { "01aa": 20 * hour, "01bb": 20 * hour }, { reason: "superseded" }),
  ];
  expect(plan(known, 30).revoked.map(({ reason }) => reason)).toEqual(["superseded", "superseded"]);
});

test("an entry stays beyond the end of its certificate, on a CRL of a later period, and then leaves", () => {
  const known = [revocation(0, { "01aa": 5 * hour, "01bb": 500 * hour })];
  expect(serialsOf(known, 5 * hour)).toEqual(["01aa", "01bb"]);
  expect(serialsOf(known, 12 * hour)).toEqual(["01aa", "01bb"]);
  expect(serialsOf(known, 36 * hour)).toEqual(["01bb"]);
});

test("no entry leaves before its certificate ends, whenever the configuration says that another counts", () => {
  const known = [
    revocation(1 * hour, { "01aa": 20 * hour }),
    revocation(9000 * hour, { "01bb": 9999 * hour }),
  ];
  expect(serialsOf(known, 2 * hour)).toEqual(["01aa", "01bb"]);
  const corrected = [revocation(48 * hour, { "01bb": 72 * hour })];
  expect(numberOf(known, 2 * hour)).toBeLessThan(numberOf(corrected, 48 * hour));
});

test("an entry stays a propagation interval longer, for processes that are behind", () => {
  const ends = [12 * hour - propagationSeconds, 12 * hour - propagationSeconds - 1];
  const known = ends.map((end, i) => revocation(0, { [`01a${i}`]: end }));
  expect(serialsOf(known, 36 * hour - 1)).toEqual(["01a0", "01a1"]);
  expect(serialsOf(known, 36 * hour)).toEqual(["01a0"]);
  expect(serialsOf(known, 42 * hour)).toEqual([]);
});

test("an earlier revocation raises the number, because the CRL has one entry more", () => {
  const latest = revocation(10, { "01aa": 20 * hour });
  const both = [latest, revocation(5, { "01bb": 20 * hour })];
  expect(numberOf(both, 20)).toBeGreaterThan(numberOf([latest], 20));
});

test("gives the same bytes whatever the order of the records", () => {
  const known = [
    revocation(5, { "01aa": 20 * hour }),
    revocation(5, { "01bb": 20 * hour }),
    revocation(3, { "01cc": 20 * hour }),
    revocation(4, { "01dd": 20 * hour }),
    { ...revocation(4, { "01dd": 20 * hour }), reason: "superseded" as const },
  ];
  expect(plan(known.toReversed(), 9)).toEqual(plan(known, 9));
});

test("a number has at most 20 octets, and grows with the period", () => {
  expect(plan([], 0).number.length).toBeLessThanOrEqual(20);
  expect(numberOf([], 6 * hour)).toBeGreaterThan(numberOf([], 6 * hour - 1));
  expect(numberOf([], 6 * hour)).toBe(numberOf([], 7 * hour));
});

/**
 * Histories: revocations at random instants, and two processes that each know those which the store's
 * promise makes them know, and any of the younger ones.
 */
const histories = fc
  .array(
    fc.record({
      at: fc.integer({ min: 0, max: 30 * hour }),
      lives: fc.integer({ min: 1, max: 40 * hour }),
      isKnownToFirst: fc.boolean(),
      isKnownToSecond: fc.boolean(),
    }),
    { maxLength: 8 },
  )
  .map((events) =>
    events.map((event, i) => ({
      ...event,
      revocation: revocation(event.at, { [`010${i}`]: event.at + event.lives }),
    })),
  );
const times = fc.tuple(
  fc.integer({ min: 0, max: 80 * hour }),
  fc.integer({ min: 0, max: 80 * hour }),
);

test("a process that knows all that another knows, and more, gives a higher number; the same number is the same CRL", () => {
  fc.assert(
    fc.property(histories, times, (events, [first, second]) => {
      const seen = (now: number, own: "isKnownToFirst" | "isKnownToSecond") =>
        events.filter(
          (each) => each.at + propagationSeconds <= now || (each.at <= now && each[own]),
        );
      const a = seen(first, "isKnownToFirst").map((each) => each.revocation);
      const b = seen(second, "isKnownToSecond").map((each) => each.revocation);
      if (!a.every((each) => b.includes(each))) return;
      const [less, more] = [plan(a, first), plan(b, second)];
      const [low, high] = [numberOf(a, first), numberOf(b, second)];
      const isNewer = second >= first || b.length > a.length;
      if (isNewer) expect(high).toBeGreaterThanOrEqual(low);
      if (high === low) expect(more.revoked).toEqual(less.revoked);
    }),
    { numRuns: 500 },
  );
});

test.each([
  [60, 3600],
  [7200, 7200],
  [90 * 86_400, 86_400],
])("of leaves that live for %i seconds lasts for %i", (defaultSeconds, lifetimeSeconds) => {
  const lifetimes = { defaultSeconds, maximumSeconds: defaultSeconds };
  expect(CrlLifetime.of(lifetimes)).toEqual({ lifetimeSeconds });
});
