import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createTokenBuckets, forwardTime } from "../../../src/node/serve/token-buckets.ts";

const start = new Date("2026-11-21T12:00:00.123Z");
const later = (seconds: number): Date => new Date(start.getTime() + seconds * 1000);

/** Whether a key got a token. */
function takingFrom(...settings: Parameters<typeof createTokenBuckets>) {
  const waitFor = createTokenBuckets(...settings);
  return (key: string, instant: Date): boolean => waitFor(key, instant) === 0;
}

describe("a token bucket", () => {
  test("fills evenly, also while it refuses", () => {
    const take = takingFrom(() => 60);
    for (let i = 0; i < 60; i++) take("a", start);
    for (let tenth = 1; tenth < 10; tenth++) expect(take("a", later(tenth / 10))).toBe(false);
    expect(take("a", later(1))).toBe(true);
    expect(take("a", later(1))).toBe(false);
    expect(take("a", later(3))).toBe(true);
    expect(take("a", later(3))).toBe(true);
    expect(take("a", later(3))).toBe(false);
  });

  test("gives no more in any window than its size and what fills meanwhile, in any order of instants", () => {
    const instants = fc.array(fc.double({ min: 0, max: 300, noNaN: true }), { maxLength: 300 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), instants, (limit, seconds) => {
        const take = takingFrom(() => limit);
        const given: number[] = [];
        let latest = 0;
        for (const each of seconds) {
          latest = Math.max(latest, each);
          if (take("a", later(each))) given.push(latest);
        }
        for (const [i, from] of given.entries()) {
          for (const [j, to] of given.slice(i).entries())
            expect(j + 1).toBeLessThanOrEqual(limit + ((to - from) * limit) / 60 + 0.1);
        }
      }),
    );
  });
});

describe("an empty bucket", () => {
  test.each([1, 7, 60, 600, 30_000])(
    "of %i in a minute, after so many at once, says when it has a token: not before, and then",
    (limit) => {
      const waitFor = createTokenBuckets(() => limit);
      for (let i = 0; i < limit; i++) expect(waitFor("a", start)).toBe(0);
      const wait = waitFor("a", start);
      expect(wait).toBeGreaterThan(0);
      expect(wait).toBeLessThanOrEqual(60 / limit);
      if (wait > 0.01) expect(waitFor("a", later(wait - 0.01))).toBeGreaterThan(0);
      expect(waitFor("a", later(Math.ceil(wait)))).toBe(0);
    },
  );

  test("asks nobody to wait longer for asking again", () => {
    const waitFor = createTokenBuckets(() => 1);
    waitFor("a", start);
    expect([0, 10, 59].map((seconds) => waitFor("a", later(seconds)))).toEqual([60, 50, 1]);
  });
});

test("the time of a clock that is set back goes on from where it was", () => {
  let seconds = 0;
  const time = forwardTime(() => later(seconds));
  const readAt = (at: number): Date => {
    seconds = at;
    return time();
  };
  const expected = [0, 30, 30, 40, 45].map(later);
  expect([0, 30, -86_400, -86_390, -86_385].map(readAt)).toEqual(expected);
});

describe("more buckets than there is room for", () => {
  test("forgets those that are full again, and loses nothing", () => {
    const take = takingFrom(() => 60, 100);
    for (let i = 0; i < 2000; i++) expect(take(`${i}`, later(i * 0.02))).toBe(true);
    const takeOfOne = takingFrom(() => 60, 100);
    for (let i = 0; i < 2000; i++) expect(takeOfOne(`owner ${i}`, later(i * 0.1))).toBe(true);
  });

  test("share one when none is full again: a flood of keys gets no more", () => {
    const take = takingFrom(() => 2, 100);
    for (let i = 0; i < 100; i++) for (let j = 0; j < 2; j++) take(`${i}`, start);
    const given = Array.from({ length: 1000 }, (_, i) => take(`x${i}`, start)).filter(Boolean);
    expect(given).toHaveLength(2);
    expect(take("5", start)).toBe(false);
    expect(take("y", later(61))).toBe(true);
    expect(take("5", later(61))).toBe(true);
  });

  test("leave as many to the keys of other owners: a flood of one owner's takes nothing from them", () => {
    const take = takingFrom(() => 2, 100);
    for (let i = 0; i < 1000; i++) for (let j = 0; j < 2; j++) take(`hostile ${i}`, start);
    for (let i = 0; i < 20; i++)
      for (let j = 0; j < 2; j++) expect(take(`honest ${i}`, start)).toBe(true);
    expect(take("hostile new", start)).toBe(false);
    expect(take("hostile new", later(61))).toBe(true);
  });

  test("do not let a drained key begin anew", () => {
    const take = takingFrom(() => 2, 3);
    for (let i = 0; i < 2; i++) take("drained", start);
    for (let i = 0; i < 50; i++) take(`${i}`, later(i / 10));
    expect(take("drained", later(5))).toBe(false);
  });
});
