import fc from "fast-check";
import { expect, test } from "vitest";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import { inHex } from "../../testkit/der/mutation.ts";
import notBase64 from "../../vectors/not-base64.json" with { type: "json" };

const octets = fc.uint8Array({ maxLength: 200 });

/** The octets that `atob` reads, if `btoa` would write this text: the standard's decoder takes several texts for one value. */
function asBtoa(text: string, encoding: "base64" | "base64url"): string | undefined {
  const isUrl = encoding === "base64url";
  if (/[\t\n\f\r ]/.test(text) || (isUrl && /[+/=]/.test(text))) return undefined;
  const padding = isUrl ? "=".repeat((4 - (text.length % 4)) % 4) : "";
  const standard = isUrl ? text.replaceAll("-", "+").replaceAll("_", "/") + padding : text;
  try {
    const binary = atob(standard);
    return btoa(binary) === standard ? Buffer.from(binary, "latin1").toString("hex") : undefined;
  } catch {
    return undefined;
  }
}

const inHexOf = (bytes: Uint8Array | undefined): string | undefined => bytes && inHex(bytes);

const base64Of = (bytes: Uint8Array): string => btoa(Buffer.from(bytes).toString("latin1"));

test("writes any octets as btoa does, and reads them back", () => {
  fc.assert(
    fc.property(octets, (bytes) => {
      const text = Base64.format(bytes);
      expect(text).toBe(base64Of(bytes));
      expect(inHexOf(Base64.parse(text))).toBe(inHex(bytes));
      const url = text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
      expect(inHexOf(Base64.parseUrl(url))).toBe(inHex(bytes));
    }),
    { numRuns: 1000 },
  );
});

test.each([0, 1, 2, 3, 1023, 1024, 1025, 65_537])("writes %i octets as btoa does", (length) => {
  const bytes = Buffer.alloc(length, 0xe7);
  expect(Base64.format(bytes)).toBe(base64Of(bytes));
  expect(inHexOf(Base64.parse(base64Of(bytes)))).toBe(inHex(bytes));
});

const symbols = fc
  .array(fc.constantFrom(..."ABQgwz09+/-_=\n é\u{141}"), { maxLength: 9 })
  .map((letters) => letters.join(""));

test("accepts exactly the texts that btoa would write, and reads them as atob does", () => {
  fc.assert(
    fc.property(symbols, (text) => {
      expect(inHexOf(Base64.parse(text))).toBe(asBtoa(text, "base64"));
      expect(inHexOf(Base64.parseUrl(text))).toBe(asBtoa(text, "base64url"));
    }),
    { numRuns: 3000 },
  );
});

test("accepts an ending of two or three symbols exactly when its spare bits are zero", () => {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const [i, symbol] of [...alphabet].entries()) {
    expect(Base64.parse(`A${symbol}==`) !== undefined).toBe(i % 16 === 0);
    expect(Base64.parse(`AA${symbol}=`) !== undefined).toBe(i % 4 === 0);
  }
});

test.each(notBase64)("refuses %j as base64", (text) => {
  expect(Base64.parse(text)).toBeUndefined();
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
  expect(Base64.parseUrl(text)).toBeUndefined();
});
