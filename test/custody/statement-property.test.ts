import fc from "fast-check";
import { expect, test } from "vitest";
import { RecordError } from "../../src/custody/record-fields.ts";
import { Statement, sealContent } from "../../src/custody/statement.ts";
import { AdditionalRoot } from "../../src/pki/authority/trust-bundle.ts";
import { second } from "../testkit/ca/timeline.ts";
import { clusterLocal } from "../testkit/pki/certificates.ts";
import { createRoot } from "../testkit/pki/foreign-root.ts";
import { createKek } from "../testkit/pki/sealed-record.ts";

const kek = await createKek("k1");
const taint = { id: "ab".repeat(20), taintedAt: second(0), retiresAt: second(1.5) };
const custodian = { trustDomain: clusterLocal, keks: [kek] as const };
const record = await Statement.seal("taint", taint, custodian);
const { value } = record;

/** The wrong answer to a text that must be refused; `undefined` for a right refusal. */
async function wrongAnswer(text: string): Promise<string | undefined> {
  try {
    await Statement.open("taint", { ...record, value: text }, custodian);
    return "opened";
  } catch (error) {
    return error instanceof RecordError ? undefined : String(error);
  }
}

test("refuses its text with any one character changed", async () => {
  const wrong: string[] = [];
  for (let at = 0; at < value.length; at++) {
    for (const bit of [1, 2, 4, 32, 64]) {
      const other = String.fromCharCode(value.charCodeAt(at) ^ bit);
      const answer = await wrongAnswer(value.slice(0, at) + other + value.slice(at + 1));
      if (answer) wrong.push(`${at}: ${answer}`);
    }
  }
  expect(wrong).toEqual([]);
});

test("refuses its text cut off anywhere, and with anything inserted", async () => {
  const wrong: string[] = [];
  for (let at = 0; at < value.length; at++) {
    for (const insert of [" ", "0", '"', "\u0000"]) {
      const answer = await wrongAnswer(value.slice(0, at) + insert + value.slice(at));
      if (answer) wrong.push(`${at} ${insert}: ${answer}`);
    }
    const answer = await wrongAnswer(value.slice(0, at));
    if (answer) wrong.push(`${at}: ${answer}`);
  }
  expect(wrong).toEqual([]);
});

const respellings: Record<string, (text: string) => string> = {
  "a space after it": (text) => `${text} `,
  "a byte order mark": (text) => `\ufeff${text}`,
  "its version as 1.0": (text) => text.replace('"version":1', '"version":1.0'),
  "another id hidden before it": (text) => text.replace('"id"', '"id":"cd","id"'),
  "another content hidden before it": (text) => text.replace('"says"', '"says":{},"says"'),
  "a letter as an escape": (text) => text.replace("cluster.local", "\\u0063luster.local"),
  "a prototype": (text) => text.replace("{", '{"__proto__":{"x":1},'),
  "a prototype for a field of its content": (text) =>
    text.replace('"says":{', '"says":{"__proto__":"x",'),
  "its fields in another order": (text) =>
    JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(text)).reverse())),
};

test.each(Object.entries(respellings))("refuses the same statement with %s", async (_, respell) => {
  expect(respell(value)).not.toBe(value);
  expect(await wrongAnswer(respell(value))).toBeUndefined();
});

test.each(["", "null", "[]", "{", "[[[[[[[[", "{}{}"])(
  "refuses %j for a statement",
  async (text) => {
    expect(await wrongAnswer(text)).toBeUndefined();
  },
);

test("refuses a text that is longer than any statement, whatever it says", async () => {
  expect(await wrongAnswer("[".repeat(100_000))).toBeUndefined();
  expect(await wrongAnswer(`${value}${" ".repeat(1 << 20)}`)).toBeUndefined();
});

test("two statements that differ in any part never have the same MAC", async () => {
  const text = fc.string({ maxLength: 8 });
  interface Said {
    kind: "taint" | "root";
    id: string;
    says: Record<string, string>;
  }
  const statements: fc.Arbitrary<Said> = fc.record({
    kind: fc.constantFrom("taint" as const, "root" as const),
    id: text,
    says: fc.dictionary(text, text, { maxKeys: 3, noNullPrototype: true }),
  });
  const macOf = async ({ kind, id, says }: Said): Promise<string> =>
    JSON.parse((await sealContent({ kind, id }, says, custodian)).value).mac;
  await fc.assert(
    fc.asyncProperty(statements, statements, async (a, b) => {
      const isSame =
        JSON.stringify([a, Object.entries(a.says)]) === JSON.stringify([b, Object.entries(b.says)]);
      expect((await macOf(a)) === (await macOf(b))).toBe(isSame);
    }),
  );
});

test("a root of a size that certificates have opens again", async () => {
  const der = await createRoot({ notAfter: second(1000), paddingOctets: 20_000 });
  const root = await AdditionalRoot.create(der, second(0));
  const sealed = await Statement.seal("root", root, custodian);
  expect((await Statement.open("root", sealed, custodian)).id).toBe(root.id);
});
