import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Backoff, isRefusal, retry } from "../../src/foundation/backoff.ts";

const backoff = { firstMilliseconds: 100, longestMilliseconds: 1_000 };

test("a pause doubles with each failure, up to the longest", () => {
  const pauses = [1, 2, 3, 4, 5, 6, 1_000, 1e9].map((n) => Backoff.milliseconds(backoff, n));
  expect(pauses).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000]);
});

test("chance takes up to a half of any pause away, and a server may ask for a longer one", () => {
  const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  const table = fc.constantFrom(...Object.values(Backoff.usual));
  fc.assert(
    fc.property(table, fc.nat(2_000), chance, fc.nat(99_999), (pauses, n, random, seconds) => {
      const failures = n + 1;
      const whole = Backoff.milliseconds(pauses, failures);
      const shorter = Backoff.milliseconds(pauses, failures, random);
      expect(shorter).toBeLessThanOrEqual(whole);
      expect(shorter).toBeGreaterThanOrEqual(whole / 2);
      const asked = Backoff.milliseconds(pauses, failures, random, seconds);
      expect(asked).toBe(Math.max(1000 * seconds, shorter));
    }),
  );
});

test("a refusal is what no retry turns into an answer", () => {
  const codes = Array.from({ length: 17 }, (_, code) => code);
  expect(codes.filter(isRefusal)).toEqual([3, 7, 12, 16]);
});

describe("an attempt that fails", () => {
  const failing = new Error("away");

  /** Attempts of which the first so many fail. @returns What became of them, and the pauses. */
  async function attempts(failures: number, changes: Partial<Parameters<typeof retry>[1]> = {}) {
    const pauses: number[] = [];
    const seen: number[] = [];
    const attempt = async (before: number): Promise<string> => {
      seen.push(before);
      if (before < failures) throw failing;
      return "done";
    };
    const outcome = await retry(attempt, {
      backoff,
      attempts: 3,
      retryAfter: () => 0,
      random: () => 0,
      pause: async (milliseconds) => void pauses.push(milliseconds),
      ...changes,
    }).catch((error: unknown) => error);
    return { outcome, pauses, seen };
  }

  test("is repeated with growing pauses, and knows of the failures before it", async () => {
    expect(await attempts(2)).toEqual({ outcome: "done", pauses: [100, 200], seen: [0, 1, 2] });
  });

  test("is not repeated beyond the most attempts, and nobody is asked about the last", async () => {
    let asked = 0;
    const retryAfter = () => asked++;
    const { outcome, seen } = await attempts(3, { retryAfter });
    expect([outcome, seen.length, asked]).toEqual([failing, 3, 2]);
  });

  test("is not repeated where no attempt may follow the failure", async () => {
    const { outcome, seen } = await attempts(1, { retryAfter: () => undefined });
    expect([outcome, seen]).toEqual([failing, [0]]);
  });

  test("waits for as long as the failure asks", async () => {
    expect((await attempts(1, { retryAfter: () => 7 })).pauses).toEqual([7_000]);
  });

  test.each(["before", "during"])("is not repeated after a signal %s the pause", async (when) => {
    const ending = new AbortController();
    if (when === "before") ending.abort();
    const pause = async () => ending.abort();
    const { outcome, seen } = await attempts(1, { signal: ending.signal, pause });
    expect([outcome, seen]).toEqual([failing, [0]]);
  });
});
