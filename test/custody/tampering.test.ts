import { describe, expect, test } from "vitest";
import { logKeysFor } from "../../src/custody/log-key.ts";
import { RecordError } from "../../src/custody/record-fields.ts";
import { KeyedStatement, Statement } from "../../src/custody/statement.ts";
import { IntermediateRequest } from "../../src/pki/authority/new-authority.ts";
import { second } from "../testkit/ca/timeline.ts";
import { clusterLocal } from "../testkit/pki/certificates.ts";
import { openRecord } from "../testkit/pki/record-opening.ts";
import { createKek, createRecord } from "../testkit/pki/sealed-record.ts";

const kek = await createKek("k1");
const custodian = { trustDomain: clusterLocal, keks: [kek] as const };
const authority = await createRecord(kek);
const said = { id: "ab".repeat(20), taintedAt: second(0), retiresAt: second(1.5) };
const taint = await Statement.seal("taint", said, custodian);
const made = await IntermediateRequest.create(clusterLocal, "EC-P256");
const key = made.extractablePrivateKey;
const request = await KeyedStatement.seal(
  "request",
  { ...made, requestedAt: second(0) },
  key,
  custodian,
);
const logKeys = logKeysFor("log.example.com/2026/0", custodian);
const { record: logKey } = await logKeys.create();

type Open = (text: string) => Promise<unknown>;

const texts: readonly (readonly [string, string, Open])[] = [
  [
    "an authority",
    authority.value,
    (value) => openRecord({ ...authority, value }, clusterLocal, [kek]),
  ],
  ["a taint", taint.value, (value) => Statement.open("taint", { ...taint, value }, custodian)],
  [
    "a request with its key",
    request.value,
    (value) => KeyedStatement.open("request", { ...request, value }, custodian),
  ],
  ["the key of a log", logKey, logKeys.open],
];

/** The same fields in other texts, or fields that are hidden behind them. */
const respellings: Readonly<Record<string, (text: string) => string>> = {
  "a space after it": (text) => `${text} `,
  "a byte order mark": (text) => `\ufeff${text}`,
  "spaces in it": (text) => JSON.stringify(JSON.parse(text), undefined, 1),
  "its version as 1.0": (text) => text.replace('"version":1', '"version":1.0'),
  "another version hidden before it": (text) => text.replace('"version"', '"version":2,"version"'),
  "another id hidden before it": (text) => text.replace('"id"', '"id":"cd","id"'),
  "another content hidden before it": (text) =>
    text.replace(/"(?:says|schedule|iv)":/, (name) => `${name}{},${name}`),
  "a letter as an escape": (text) => text.replace("cluster.local", "\\u0063luster.local"),
  "a prototype": (text) => text.replace("{", '{"__proto__":{"x":1},'),
  "its fields in another order": (text) =>
    JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(text)).reverse())),
};

const others = ["", "null", "[]", "{", "[[[[[[[[", "{}{}", "[".repeat(100_000)];

describe.each(texts)("%s", (_, value, open) => {
  /** The wrong answer to a text that must be refused; `undefined` for a right refusal. */
  const wrongAnswer = (text: string): Promise<string | undefined> =>
    open(text).then(
      () => "opened",
      (error: unknown) => (error instanceof RecordError ? undefined : String(error)),
    );

  test("opens as it is, and not with any one character changed, inserted or cut off", async () => {
    expect(await wrongAnswer(value)).toBe("opened");
    const wrong: string[] = [];
    for (let at = 0; at < value.length; at++) {
      const [before, after] = [value.slice(0, at), value.slice(at + 1)];
      const other = String.fromCharCode(value.charCodeAt(at) ^ (1 << (at % 7)));
      const inserted = [" ", "0", '"', "\u0000"][at % 4];
      for (const text of [before, before + other + after, before + inserted + value[at] + after]) {
        const answer = await wrongAnswer(text);
        if (answer) wrong.push(`${at}: ${answer}: ${text}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test.each(Object.entries(respellings))("does not open with %s", async (_, respell) => {
    expect(respell(value)).not.toBe(value);
    expect(await wrongAnswer(respell(value))).toBeUndefined();
  });

  test.each([...others, `${value}${" ".repeat(1 << 20)}`])("is not %.20j", async (text) => {
    expect(await wrongAnswer(text)).toBeUndefined();
  });
});
