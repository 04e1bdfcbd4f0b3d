import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hoursUntil } from "../../src/agent/identity/refreshing-identity.ts";
import { RenewalPlan } from "../../src/foundation/renewal-plan.ts";

const now = new Date("2026-11-21T12:00:00Z");
const minutes = (count: number): Date => new Date(now.getTime() + count * 60_000);

// Istio's TestRotateTimeNoJitter: created, expires, ratio, delay; all in minutes from now.
test.each([
  ["expired", -60, -1, 0.5, 0],
  ["half of an hour", 0, 60, 0.5, 30],
  ["a quarter of grace", 0, 60, 0.25, 45],
  ["three quarters of grace", 0, 60, 0.75, 15],
  ["nothing but grace", 0, 60, 1, 0],
  ["no grace", 0, 60, 0, 60],
  ["created in the future", 30, 90, 0.25, 75],
])("waits as Istio does: %s", (_name, created, expires, graceRatio, delay) => {
  const life = { obtainedAt: minutes(created), notAfter: minutes(expires) };
  const waited = RenewalPlan.delayMilliseconds(life, { graceRatio, jitter: 0 }, 0.5, now);
  expect(waited).toBe(delay * 60_000);
});

// Istio's TestRotateTimeWithJitter: with a jitter of one half.
test.each([
  [1, 0, 30],
  [0.5, 0, 60],
  [0, 30, 60],
])("with a ratio of %d and a jitter of 0.5 waits %d to %d minutes", (graceRatio, least, most) => {
  const life = { obtainedAt: now, notAfter: minutes(60) };
  const delay = (random: number): number =>
    RenewalPlan.delayMilliseconds(life, { graceRatio, jitter: 0.5 }, random, now) / 60_000;
  for (const random of [0, 0.25, 0.5, 0.75, 1 - 1e-9]) {
    expect(delay(random)).toBeGreaterThanOrEqual(least - 1e-6);
    expect(delay(random)).toBeLessThanOrEqual(most);
  }
});

test("never renews at once, whatever the policy and the life", () => {
  const anyShare = fc.double({ min: 0, max: 1, noNaN: true });
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 10_000_000 }),
      anyShare,
      anyShare,
      anyShare,
      (seconds, graceRatio, jitter, random) => {
        const life = { obtainedAt: now, notAfter: new Date(now.getTime() + seconds * 1000) };
        const wait = RenewalPlan.at(life, { graceRatio, jitter }, random).getTime() - now.getTime();
        expect(wait).toBeGreaterThanOrEqual(1_000);
        expect(wait).toBeLessThanOrEqual(Math.max(1_000, seconds * 1000));
      },
    ),
  );
});

test("spreads the renewals of agents that started together", () => {
  const life = { obtainedAt: now, notAfter: minutes(24 * 60) };
  const policy = { graceRatio: 0.5, jitter: 0.01 };
  const [first, last] = [0, 1 - 1e-9].map((random) =>
    RenewalPlan.at(life, policy, random).getTime(),
  );
  expect(((first ?? 0) - (last ?? 0)) / 60_000).toBeCloseTo(28.8);
});

test("tries again after a second, then ever later, and at most two and a half minutes later", () => {
  const waits = [1, 2, 3, 9, 1000].map(
    (failures) => RenewalPlan.retryAt(failures, 0, now).getTime() - now.getTime(),
  );
  expect(waits).toEqual([1_000, 2_000, 4_000, 150_000, 150_000]);
});

test("cuts a wait by up to a half, so that no two agents stay in step", () => {
  expect(RenewalPlan.retryAt(1, 1 - 1e-9, now).getTime() - now.getTime()).toBeCloseTo(500, 0);
});

describe("a wait that the CA asks for", () => {
  const waited = (seconds: number, notAfter?: Date, failures = 1): number =>
    (RenewalPlan.retryAt(failures, 0, now, { seconds, notAfter }).getTime() - now.getTime()) / 1000;

  test("delays the next attempt, and never brings it forward", () => {
    expect(waited(7)).toBe(7);
    expect(waited(7, minutes(24 * 60))).toBe(7);
    expect(waited(0)).toBe(1);
    expect(waited(7, undefined, 5)).toBe(16);
  });

  test("counts as two and a half minutes if it is longer", () => {
    expect([150, 151, 3600, 99_999].map((seconds) => waited(seconds))).toEqual(Array(4).fill(150));
  });

  test("takes a tenth of what is left of the certificate at most", () => {
    expect(waited(99_999, minutes(10))).toBe(60);
    expect(waited(60, minutes(1))).toBe(6);
    expect(waited(60, minutes(0))).toBe(1);
    expect(waited(60, minutes(-1))).toBe(1);
  });
});

test.each([
  [minutes(90), 1.5],
  [minutes(1), 0.02],
  [minutes(0), 0],
  [minutes(-90), 0],
  [undefined, 0],
])("an operator reads of the end at %s that %d hours are left", (notAfter, hours) => {
  expect(hoursUntil(notAfter, now)).toBe(hours);
});
