import { expect, test } from "vitest";
import { nextSigningAuthority } from "../../../src/pki/authority/signing-authority.ts";

const hour = (n: number): Date => new Date(Date.UTC(2026, 10, 22, n));

/** An authority that signs between two hours of a day. */
const signing = (id: string, from: number, until: number) => ({
  id,
  schedule: {
    publishedFrom: hour(from - 1),
    signsFrom: hour(from),
    signsUntil: hour(until),
    retiresAt: hour(until + 1),
  },
});

test("is the first to begin after the instant, in whatever order they are", () => {
  const authorities = [signing("late", 9, 12), signing("now", 2, 6), signing("soon", 5, 9)];
  expect(nextSigningAuthority(authorities, hour(3))?.id).toBe("soon");
  expect(nextSigningAuthority(authorities.toReversed(), hour(3))?.id).toBe("soon");
});

test.each([
  ["begins at this instant", signing("a", 3, 6)],
  ["has begun", signing("a", 2, 6)],
  ["is over", signing("a", 1, 2)],
  ["never signs, as a tainted one or an additional root", signing("a", 5, 5)],
])("is none that %s", (_, authority) => {
  expect(nextSigningAuthority([authority], hour(3))).toBeUndefined();
});
