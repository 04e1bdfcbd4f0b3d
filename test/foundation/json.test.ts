import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { JsonFetch } from "../../src/foundation/fetch.ts";
import { JsonBounds, JsonTooLarge, parseJson } from "../../src/foundation/json.ts";

/** Names that JSON does not begin with an escape. */
const isPlain = (name: string): boolean => !JSON.stringify(name).startsWith('"\\');
const plainNames = fc.string().filter(isPlain);
const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof(
    { maxDepth: 5 },
    fc.string(),
    fc.constantFrom(null, true, 1.5, ":", '":', "\\", '\\"', "{"),
    fc.array(tie("tree"), { maxLength: 4 }),
    fc.dictionary(plainNames, tie("tree"), { maxKeys: 4 }),
  ),
}));

test("every value is read as it is, unless a name begins with an escape", () => {
  fc.assert(
    fc.property(tree, (value) => {
      for (const space of [0, 2]) {
        const text = JSON.stringify(value, undefined, space);
        expect(parseJson(text)).toEqual(JSON.parse(text));
      }
    }),
  );
});

test("names may have escapes inside, as managedFields have", () => {
  const text = '{"k:{\\"type\\":\\"Ready\\"}": {".": {}}, "a\\\\": ":"}';
  expect(parseJson(text)).toEqual(JSON.parse(text));
});

/** Names as JSON may spell them, some with escapes. */
const spelledNames = fc.oneof(
  plainNames.map((name) => JSON.stringify(name)),
  fc.constantFrom('"a"', '":"', '"{"', '"__proto__"', '"\\u0061"', '"\\\\"', '"a\\""'),
);

test("an object is read exactly if no name begins with an escape and no two are the same", () => {
  fc.assert(
    fc.property(fc.array(spelledNames, { maxLength: 5 }), fc.boolean(), (names, isNested) => {
      const object = `{${names.map((name) => `${name} : [":", "\\\\", "\\"", 1]`).join(",")}}`;
      const text = isNested ? `[null, {"x": ${object}}]` : object;
      const spelled = new Set(names.map((name) => JSON.parse(name)));
      const isGood = spelled.size === names.length && !names.some((name) => name.startsWith('"\\'));
      const parse = () => parseJson(text);
      if (isGood) expect(parse()).toEqual(JSON.parse(text));
      else expect(parse).toThrow(SyntaxError);
    }),
    { numRuns: 1000 },
  );
});

describe("JSON", () => {
  test.each(["", "{", '{"a":1,}', '"', "{'a':1}", "nul"])("«%s» is refused", (text) => {
    expect(() => parseJson(text)).toThrow(SyntaxError);
  });

  test.each(['{"a":1,"a":1}', '[{"a":{},"b":[],"a":{}}]', '{"a":{"b":1,"b":1}}', '{"":1,"":2}'])(
    "«%s», with a name twice, is refused",
    (text) => {
      expect(() => parseJson(text)).toThrow(SyntaxError);
    },
  );

  test.each(['{"\\u0061":1}', '{"a":{"\\"":1}}', '[{"\\\\":1}]', '{"a":1,"\\u0061":2}'])(
    "«%s», with an escape at the beginning of a name, is refused",
    (text) => {
      expect(() => parseJson(text)).toThrow(SyntaxError);
    },
  );

  test.each(['{"a":{"a":{"a":1}}}', '[{"a":1},{"a":1}]', '{"a":"b:c:\\"d:"}', "null", '":"', "[]"])(
    "«%s» is read",
    (text) => {
      expect(parseJson(text)).toEqual(JSON.parse(text));
    },
  );

  test("is read however deeply it nests, and refused as deep", () => {
    const nest = (inner: string) => `${'{"a":['.repeat(50_000)}${inner}${"]}".repeat(50_000)}`;
    expect(parseJson(nest("1"), JsonBounds.unbounded)).toHaveProperty("a");
    expect(() => parseJson(nest('{"b":1,"b":1}'), JsonBounds.unbounded)).toThrow(SyntaxError);
  });
});

/** The `{`, `[` and `,` that JSON of a value needs. */
function valuesIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const inner = Object.values(value);
  return Math.max(1, inner.length) + inner.reduce<number>((sum, each) => sum + valuesIn(each), 0);
}

describe("the bounds of JSON", () => {
  test("count its values, whatever its strings hold", () => {
    fc.assert(
      fc.property(tree, fc.constantFrom(0, 2), (value, space) => {
        const octets = new TextEncoder().encode(JSON.stringify(value, undefined, space));
        const values = valuesIn(value);
        const bounds = { octets: octets.length, values };
        expect(parseJson(octets, bounds)).toEqual(value);
        const refusals = [{ ...bounds, octets: octets.length - 1 }];
        if (values > 0) refusals.push({ ...bounds, values: values - 1 });
        for (const each of refusals) expect(() => parseJson(octets, each)).toThrow(JsonTooLarge);
      }),
    );
  });

  test("count octets of UTF-8, also of a string", () => {
    expect(() => parseJson('"äöü"', { octets: 7, values: 0 })).toThrow(JsonTooLarge);
    expect(parseJson('"äöü"', { octets: 8, values: 0 })).toBe("äöü");
  });

  test("allow a value in each 16 octets, and no more than memory for them", () => {
    expect(JsonBounds.of(2 << 20).values).toBe(131_072);
    expect(JsonBounds.of(10 << 20).values).toBe(131_072);
    expect(JsonBounds.of(65_536).values).toBe(4096);
    expect(JsonBounds.of(100).values).toBe(1024);
  });
});

test.each([
  ["no UTF-8", [0x22, 0xff, 0x22]],
  ["a byte order mark", [0xef, 0xbb, 0xbf, 0x31]],
  ["a string that ends within an escape", [0x22, 0x5c]],
])("%s is refused", (_, octets) => {
  expect(() => parseJson(Uint8Array.from(octets))).toThrow(SyntaxError);
});

test("a document of an issuer with a name twice is no answer", async () => {
  const fetchJson = JsonFetch.create(async () => new Response('{"keys":[],"keys":[]}'));
  await expect(fetchJson("https://a.test")).rejects.toThrow("with one spelling");
});
