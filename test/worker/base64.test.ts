import fc from "fast-check";
import { expect, test } from "vitest";
import { parseBase64, parseBase64Lines } from "../../src/pki/base64.ts";

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

test("the platform reads back any octets", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (octets) => {
      const lines = btoa(String.fromCharCode(...octets)).replace(/.{64}/g, "$&\r\n");
      expect(parseBase64Lines(lines)).toEqual(octets);
    }),
  );
});
