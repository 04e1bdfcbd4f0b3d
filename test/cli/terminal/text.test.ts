import { expect, test } from "vitest";
import { columnsOf, formatInstant, printable } from "../../../src/cli/terminal/text.ts";

test.each(["CN=Root CA, O=Müller & Söhne", "CN=根证书", "a status 403: «forbidden»"])(
  "shows %s as it stands",
  (text) => {
    expect(printable(text)).toBe(text);
  },
);

test.each([
  ["a line feed", "a\r\nb", "a?b"],
  ["an escape sequence", "a\u001b[31mb", "a?[31mb"],
  ["an 8-bit control sequence", "a\u009b31mb", "a?31mb"],
  ["a change of the writing direction", "a\u202eb", "a?b"],
  ["a line separator", "a\u2028b", "a?b"],
  ["half of a surrogate pair", "a\ud800b", "a?b"],
  ["a stack of accents", `a${"\u0300".repeat(50)}b`, "a?b"],
])("does not show %s", (_, text, shown) => {
  expect(printable(text)).toBe(shown);
});

test("shows the beginning of a long text", () => {
  expect(printable("x".repeat(1000))).toBe(`${"x".repeat(300)}…`);
});

test("a style takes no columns, and a letter of an East Asian script two", () => {
  expect(columnsOf("\u001b[31mred\u001b[39m")).toBe(3);
  expect(columnsOf("根证书")).toBe(6);
});

test("an instant prints to the minute, in UTC, and is never rounded up", () => {
  expect(formatInstant(new Date("2026-11-21T23:59:59.999Z"))).toBe("2026-11-21 23:59Z");
  expect(formatInstant(new Date("2026-11-22T01:00:00.000+02:00"))).toBe("2026-11-21 23:00Z");
});
