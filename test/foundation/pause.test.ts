import { expect, test } from "vitest";
import { backoffMilliseconds } from "../../src/foundation/pause.ts";

const backoff = { firstMilliseconds: 100, longestMilliseconds: 1_000 };

test("a pause doubles with each failure, up to the longest", () => {
  const pauses = [1, 2, 3, 4, 5, 6, 1_000, 1e9].map((n) => backoffMilliseconds(backoff, n));
  expect(pauses).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000]);
});

test("a pause that is not spread does not depend on chance", () => {
  expect(backoffMilliseconds(backoff, 1, 0.999)).toBe(100);
});

test.each([
  [0, 110],
  [0.5, 100],
  [1 - 1e-9, 90],
])("chance %d chooses a pause of %d within the spread", (random, expected) => {
  const spread = { ...backoff, spread: [0.9, 1.1] } as const;
  expect(backoffMilliseconds(spread, 1, random)).toBeCloseTo(expected, 5);
});
