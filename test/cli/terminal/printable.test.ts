import { expect, test } from "vitest";
import { printable } from "../../../src/cli/terminal/printable.ts";

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
