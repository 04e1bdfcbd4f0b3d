import fc from "fast-check";
import { expect, test } from "vitest";
import { parseBase64, parseBase64Lines, parseBase64Url, toBase64 } from "../../src/pki/base64.ts";

const symbols = fc
  .array(fc.constantFrom(..."ABQgwz09+/-_= \t\f\v\r\n\u{a0}\u{141}"), { maxLength: 12 })
  .map((letters) => letters.join(""));

test("the platform decodes base64 in lines exactly as code of ours decodes it on one", () => {
  fc.assert(
    fc.property(symbols, (text) => {
      expect(parseBase64Lines(text)).toEqual(parseBase64(text.replace(/[\r\n]/g, "")));
    }),
    { numRuns: 5000 },
  );
});

test("the platform writes any octets, and reads them back", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (octets) => {
      expect(toBase64(octets)).toBe(btoa(String.fromCharCode(...octets)));
      const lines = btoa(String.fromCharCode(...octets)).replace(/.{64}/g, "$&\r\n");
      expect(parseBase64Lines(lines)).toEqual(octets);
    }),
  );
});

test("the platform decodes base64url into a place exactly as into a new one, and only what is canonical", () => {
  fc.assert(
    fc.property(symbols, fc.constantFrom(0, 4, 64), (text, room) => {
      const octets = parseBase64Url(text, new Uint8Array(room));
      expect(octets).toEqual(parseBase64Url(text));
      if (octets) expect(urlOf(octets)).toBe(text);
    }),
    { numRuns: 5000 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (octets) => {
      expect(parseBase64Url(urlOf(octets), new Uint8Array(1024))).toEqual(octets);
    }),
  );
});

function urlOf(octets: Uint8Array): string {
  const standard = btoa(String.fromCharCode(...octets));
  return standard.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
