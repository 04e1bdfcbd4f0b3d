import fc from "fast-check";
import { expect, test } from "vitest";
import { parseBase64, parseBase64Url, toBase64 } from "../../../src/pki/encoding/base64.ts";
import { inHex } from "../../testkit/der/mutation.ts";

const octets = fc.uint8Array({ maxLength: 200 });

/** The octets that Buffer reads, if Buffer would write this text: it reads anything and writes canonically. */
function asBuffer(text: string, encoding: "base64" | "base64url"): string | undefined {
  const read = Buffer.from(text, encoding);
  return read.toString(encoding) === text ? read.toString("hex") : undefined;
}

const inHexOf = (bytes: Uint8Array | undefined): string | undefined => bytes && inHex(bytes);

test("writes any octets as Buffer does, and reads them back", () => {
  fc.assert(
    fc.property(octets, (bytes) => {
      const text = toBase64(bytes);
      expect(text).toBe(Buffer.from(bytes).toString("base64"));
      expect(inHexOf(parseBase64(text))).toBe(inHex(bytes));
      const url = Buffer.from(bytes).toString("base64url");
      expect(inHexOf(parseBase64Url(url))).toBe(inHex(bytes));
    }),
    { numRuns: 1000 },
  );
});

test.each([0, 1, 2, 3, 1023, 1024, 1025, 65_537])("writes %i octets as Buffer does", (length) => {
  const bytes = Buffer.alloc(length, 0xe7);
  expect(toBase64(bytes)).toBe(bytes.toString("base64"));
  expect(inHexOf(parseBase64(bytes.toString("base64")))).toBe(inHex(bytes));
});

const symbols = fc
  .array(fc.constantFrom(..."ABQgwz09+/-_=\n é\u{141}"), { maxLength: 9 })
  .map((letters) => letters.join(""));

test("accepts exactly the texts that Buffer would write, and reads them as Buffer does", () => {
  fc.assert(
    fc.property(symbols, (text) => {
      expect(inHexOf(parseBase64(text))).toBe(asBuffer(text, "base64"));
      expect(inHexOf(parseBase64Url(text))).toBe(asBuffer(text, "base64url"));
    }),
    { numRuns: 3000 },
  );
});

test("accepts an ending of two or three symbols exactly when its spare bits are zero", () => {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const [i, symbol] of [...alphabet].entries()) {
    expect(parseBase64(`A${symbol}==`) !== undefined).toBe(i % 16 === 0);
    expect(parseBase64(`AA${symbol}=`) !== undefined).toBe(i % 4 === 0);
  }
});

test.each([
  "A",
  "AA",
  "AAA",
  "AAAAA",
  "=",
  "==",
  "====",
  "A===",
  "AA=A",
  "AA=\n",
  "AA==AAAA",
  "AAAA=",
  "AAAA====",
  "AAAA\n",
  " AAAA",
  "AA A",
  "AA-_",
  "AAA\u{141}",
  "AAA\u{ff21}",
  "\u{0}AAA",
])("refuses %j as base64", (text) => {
  expect(parseBase64(text)).toBeUndefined();
});

test.each([
  "A",
  "AAAAA",
  "AA==",
  "AAA=",
  "AAAA=",
  "AAAA\n",
  "AAAAAA==",
  "AA+/",
  "AB",
  "AAB",
  "AA A",
  "AAA\n",
])("refuses %j as base64url", (text) => {
  expect(parseBase64Url(text)).toBeUndefined();
});
