import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Duration } from "../../src/foundation/text.ts";

const hour = 3_600_000;

describe("a duration", () => {
  test.each<[string, number]>([
    ["0", 0],
    ["0s", 0],
    ["24h", 24 * hour],
    ["1h30m", 1.5 * hour],
    ["1.5h", 1.5 * hour],
    ["1.5s", 1500],
    ["100ms", 100],
    ["1000us", 1],
    ["1.5µs", 0.0015],
    ["1.5μs", 0.0015],
    ["7ns", 0.000_007],
    ["1h2m3s4ms5us6ns", hour + 123_004.005_006],
    ["2562047h47m16.854s", 9_223_372_036_854],
  ])("is read: %s", (text, milliseconds) => {
    expect(Duration.parse(text)).toBe(milliseconds);
  });

  test.each<[string, string]>([
    ["empty", ""],
    ["a unit alone", "h"],
    ["a number without a unit at the end", "1h30"],
    ["zero written at length", "00"],
    ["positive with a sign, which Go would read", "+1h"],
    ["negative", "-1h"],
    ["days", "1d"],
    ["in upper case", "24H"],
    ["in another order, which Go would read", "30m1h"],
    ["without digits before the point, which Go would read", ".5h"],
    ["with two points", "1.2.3h"],
    ["in digits of another script", "٣h"],
    ["with a newline", "24h\n"],
    ["longer than Go could hold", "2562048h"],
    ["longer than Go could hold, as a sum", "2562047h48m"],
    ["longer than a number holds", `${"9".repeat(400)}s`],
    ["infinite", "Infinityh"],
  ])("is none if it is %s", (_, text) => {
    expect(Duration.parse(text)).toBeUndefined();
    expect(Duration.milliseconds.safeParse(text).success).toBe(false);
    expect(Duration.seconds.safeParse(text).success).toBe(false);
  });

  test("is none if it is a number", () => {
    expect(Duration.milliseconds.safeParse(3600).success).toBe(false);
  });

  test("in seconds has no part of a second", () => {
    expect(Duration.seconds.safeParse("1.5h").data).toBe(5400);
    expect(Duration.seconds.safeParse("2000ms").data).toBe(2);
    for (const text of ["1500ms", "1.5s", "1ns", "1h0.1s"]) {
      expect(Duration.seconds.safeParse(text).success).toBe(false);
    }
  });
});

describe("durations", () => {
  const parts = fc.record({
    hours: fc.nat(2000),
    minutes: fc.nat(59),
    seconds: fc.nat(59),
    nanoseconds: fc.nat(999_999_999),
  });

  test("are read as Go's Duration.String writes them, to the nanosecond", () => {
    fc.assert(
      fc.property(parts, ({ hours, minutes, seconds, nanoseconds }) => {
        const fraction = String(nanoseconds).padStart(9, "0").replace(/0+$/, "");
        const text = `${hours}h${minutes}m${seconds}${fraction && "."}${fraction}s`;
        const wholeSeconds = hours * 3600 + minutes * 60 + seconds;
        expect(Duration.parse(text)).toBe((wholeSeconds * 1e9 + nanoseconds) / 1e6);
      }),
    );
  });

  test("are the sum of their parts, whichever are there", () => {
    const units = ["h", "m", "s", "ms", "us", "ns"];
    const amounts = fc.array(fc.option(fc.nat(999)), { minLength: 6, maxLength: 6 });
    fc.assert(
      fc.property(amounts, (each) => {
        const texts = each.map((value, i) => (value === null ? "" : `${value}${units[i]}`));
        const values = texts.map((text) =>
          text === "" ? 0 : (Duration.parse(text) ?? Number.NaN),
        );
        const sum = values.reduce((a, b) => a + b, 0);
        const whole = Duration.parse(texts.join(""));
        if (each.every((value) => value === null)) expect(whole).toBeUndefined();
        else expect(whole).toBeCloseTo(sum, 6);
      }),
    );
  });

  test("are finite and not negative, whatever is read", () => {
    const pieces = fc.constantFrom(..."0123456789.-+ hmsnuµ", "ms", "us", "ns", "1h", "30m");
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (written) => {
        const milliseconds = Duration.parse(written.join("")) ?? 0;
        expect(Number.isFinite(milliseconds) && milliseconds >= 0).toBe(true);
      }),
    );
  });
});
