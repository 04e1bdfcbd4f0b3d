import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createJsonFetch } from "../../src/foundation/fetch.ts";
import { parseEscapedJson, parseUniqueJson } from "../../src/foundation/json.ts";

/** Names that JSON writes without an escape. */
const isPlain = (name: string): boolean => !JSON.stringify(name).includes("\\");
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

test("every value with plain names is read as it is", () => {
  fc.assert(
    fc.property(tree, (value) => {
      for (const space of [0, 2]) {
        const text = JSON.stringify(value, undefined, space);
        expect(parseUniqueJson(text)).toEqual(JSON.parse(text));
      }
    }),
  );
});

describe("JSON of a Kubernetes API", () => {
  test("may have names with escapes inside, as managedFields have", () => {
    const text = '{"k:{\\"type\\":\\"Ready\\"}": {".": {}}, "a\\\\": ":"}';
    expect(parseEscapedJson(text)).toEqual(JSON.parse(text));
  });

  test.each([
    ['{"authenticated": false, "authenticated": true}'],
    ['{"status": {"user": {}, "us\\u0065r": {}}}'],
    ['[{"items": []}, {"items": [], "items": [1]}]'],
    ['{"\\u0061": 1}'],
    ['{"\\\\": 1, "\\u0061": 2}'],
    ['{"a": 1'],
  ])("is refused with two members of one name, or an escape at its beginning: %s", (text) => {
    expect(() => parseEscapedJson(text)).toThrow(SyntaxError);
  });
});

/** Names as JSON may spell them, some with escapes. */
const spelledNames = fc.oneof(
  plainNames.map((name) => JSON.stringify(name)),
  fc.constantFrom('"a"', '":"', '"{"', '"__proto__"', '"\\u0061"', '"\\\\"', '"a\\""'),
);

test("an object is read exactly if its names are plain and no two are the same", () => {
  fc.assert(
    fc.property(fc.array(spelledNames, { maxLength: 5 }), fc.boolean(), (names, isNested) => {
      const object = `{${names.map((name) => `${name} : [":", "\\\\", "\\"", 1]`).join(",")}}`;
      const text = isNested ? `[null, {"x": ${object}}]` : object;
      const isGood = new Set(names).size === names.length && !names.join().includes("\\");
      const parse = () => parseUniqueJson(text);
      if (isGood) expect(parse()).toEqual(JSON.parse(text));
      else expect(parse).toThrow(SyntaxError);
    }),
    { numRuns: 1000 },
  );
});

describe("JSON", () => {
  test.each(["", "{", '{"a":1,}', '"', "{'a':1}", "nul"])("«%s» is refused", (text) => {
    expect(() => parseUniqueJson(text)).toThrow(SyntaxError);
  });

  test.each(['{"a":1,"a":1}', '[{"a":{},"b":[],"a":{}}]', '{"a":{"b":1,"b":1}}', '{"":1,"":2}'])(
    "«%s», with a name twice, is refused",
    (text) => {
      expect(() => parseUniqueJson(text)).toThrow(SyntaxError);
    },
  );

  test.each(['{"\\u0061":1}', '{"a":{"\\"":1}}', '[{"\\\\":1}]', '{"a":1,"\\u0061":2}'])(
    "«%s», with an escape in a name, is refused",
    (text) => {
      expect(() => parseUniqueJson(text)).toThrow(SyntaxError);
    },
  );

  test.each(['{"a":{"a":{"a":1}}}', '[{"a":1},{"a":1}]', '{"a":"b:c:\\"d:"}', "null", '":"', "[]"])(
    "«%s» is read",
    (text) => {
      expect(parseUniqueJson(text)).toEqual(JSON.parse(text));
    },
  );

  test("is read however deeply it nests, and refused as deep", () => {
    const nest = (inner: string) => `${'{"a":['.repeat(50_000)}${inner}${"]}".repeat(50_000)}`;
    expect(parseUniqueJson(nest("1"))).toHaveProperty("a");
    expect(() => parseUniqueJson(nest('{"b":1,"b":1}'))).toThrow(SyntaxError);
  });
});

test("a document of an issuer with a name twice is no answer", async () => {
  const fetchJson = createJsonFetch(async () => new Response('{"keys":[],"keys":[]}'));
  await expect(fetchJson("https://a.test")).rejects.toThrow("with one spelling");
});
