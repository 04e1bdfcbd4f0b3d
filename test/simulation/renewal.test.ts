import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addSeconds, Validity } from "../../src/pki/x509/validity.ts";
import { type RenewalRule, renewalRules } from "../testkit/callers/renewal-rules.ts";

const hour = 3600;
const day = 24 * hour;
const lifetimes = { defaultSeconds: day, maximumSeconds: 90 * day };

const lives = fc.oneof(fc.integer({ min: 10, max: 1200 }), fc.integer({ min: 10, max: 90 * day }));
const instants = fc.date({ min: new Date(0), max: new Date("2200-01-01"), noInvalidDate: true });
const fractions = fc.double({ min: 0, max: 0.999, noNaN: true });

/** The validity of a leaf under an authority that ends so many seconds after `now`. */
function validityOf(asked: number, authorityLives: number, now: Date): Validity {
  const authority = { notBefore: new Date(0), notAfter: addSeconds(now, authorityLives) };
  return Validity.ofLeaf(BigInt(asked), lifetimes, authority, now);
}

/** The answers that one client takes in so many seconds, one thousand at most. */
function answersIn(seconds: number, rule: RenewalRule, validityAt: (now: Date) => Validity) {
  const start = new Date("2026-11-21T12:00:00.250Z");
  const end = addSeconds(start, seconds);
  let answers = 0;
  // A client that asks at once takes about 50 ms for a new key, its CSR and the call.
  for (let now = start; now < end && answers < 1000; answers++) {
    now = addSeconds(now, Math.max(0.05, rule(validityAt(now), now, 0.5)));
  }
  return answers;
}

const byHalves = [renewalRules["pilot-agent"], renewalRules.ztunnel] as const;

test("a client that renews by halves waits at least two fifths of any life of ten seconds and more", () => {
  fc.assert(
    fc.property(lives, lives, instants, fractions, (asked, authorityLives, now, fraction) => {
      const validity = validityOf(asked, authorityLives, now);
      const life = Math.min(asked, authorityLives);
      for (const rule of byHalves) {
        // Validity has whole seconds, so up to one of them is over at the start.
        expect(rule(validity, now, fraction)).toBeGreaterThanOrEqual(0.45 * life - 1);
      }
    }),
    { numRuns: 2000 },
  );
});

test("a Kmesh waits until an hour before the end, however far its leaf is backdated", () => {
  const longLives = fc.integer({ min: 2 * hour, max: 90 * day });
  fc.assert(
    fc.property(longLives, instants, (asked, now) => {
      const wait = renewalRules.Kmesh(validityOf(asked, 90 * day, now), now);
      expect(wait).toBeGreaterThanOrEqual(asked - hour - 1);
    }),
  );
});

describe("in ten minutes", () => {
  test.each([10, 60, 119, 120, 121, 240, 600])(
    "a client that renews by halves takes one leaf for each two fifths of %i seconds at most",
    (asked) => {
      const validityAt = (now: Date) => validityOf(asked, day, now);
      for (const rule of byHalves) {
        expect(answersIn(600, rule, validityAt)).toBeLessThanOrEqual(600 / (0.4 * asked) + 1);
      }
    },
  );

  test.each([10, 60, 120])(
    "a ztunnel would take a thousand leaves of %i seconds if they began two minutes back",
    (asked) => {
      const backdated = (now: Date): Validity => ({
        ...validityOf(asked, day, now),
        notBefore: addSeconds(now, -120),
      });
      expect(answersIn(600, renewalRules.ztunnel, backdated)).toBe(1000);
    },
  );

  test("a ztunnel does not loop on the leaves of an authority in its last minutes", () => {
    const end = new Date("2026-11-21T12:10:30Z");
    const authority = { notBefore: new Date(0), notAfter: end };
    const validityAt = (now: Date) => Validity.ofLeaf(0n, lifetimes, authority, now);
    expect(answersIn(600, renewalRules.ztunnel, validityAt)).toBeLessThan(12);
  });

  test("a Kmesh loops on leaves of an hour, and does not on leaves of a day", () => {
    const answersTo = (asked: number) =>
      answersIn(600, renewalRules.Kmesh, (now) => validityOf(asked, 90 * day, now));
    expect(answersTo(hour)).toBe(1000);
    expect(answersTo(day)).toBe(1);
  });
});
