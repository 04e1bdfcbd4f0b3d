import fc from "fast-check";
import { expect, test } from "vitest";
import { RevocationContent } from "../../../src/custody/record-kinds.ts";
import { SerialNumber } from "../../../src/pki/encoding/serial-number.ts";

test.each([
  ["0A:0B", "0a0b", "0a0b"],
  ["0x0a0b", "0a0b", "0a0b"],
  ["a0b", "0a0b", "0a0b"],
  ["00 8A 01", "8a01", "008a01"],
  ["8a01", "8a01", "008a01"],
  ["7f", "7f", "7f"],
  ["00", "00", "00"],
])("the serial number %s is shown as %s, and its content octets are %s", (text, shown, content) => {
  expect(SerialNumber.shown(text)).toBe(shown);
  expect(SerialNumber.content(text)).toBe(content);
});

/** The spellings of other programs. */
const spellings = (digits: string): readonly string[] => [
  digits,
  digits.toUpperCase(),
  `0x${digits}`,
  `000${digits}`,
  digits.replace(/..(?=.)/g, "$&:"),
];

test("every spelling of a serial number is shown alike, and has the same content", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 1n, max: 2n ** 159n - 1n }), (number) => {
      const shown = SerialNumber.shown(number.toString(16));
      expect(BigInt(`0x${shown}`)).toBe(number);
      expect(shown).toMatch(/^(?!00)(?:[0-9a-f]{2})+$/);
      for (const each of spellings(shown)) {
        expect(SerialNumber.mayBe(each)).toBe(true);
        expect(SerialNumber.shown(each)).toBe(shown);
        expect(RevocationContent.isSerialNumber(SerialNumber.content(each))).toBe(true);
        expect(SerialNumber.shown(SerialNumber.content(each))).toBe(shown);
      }
    }),
  );
});

test.each(["", "7", "leaf.pem", "./ab", "ab-cd", "0xfg", "ab".repeat(33)])(
  "%j is no serial number",
  (text) => {
    expect(SerialNumber.mayBe(text)).toBe(false);
  },
);
