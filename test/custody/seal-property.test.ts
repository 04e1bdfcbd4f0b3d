import { expect, test } from "vitest";
import { RecordError } from "../../src/custody/record-fields.ts";
import { flipBit } from "../testkit/der/mutation.ts";
import { clusterLocal } from "../testkit/pki/certificates.ts";
import { openRecord } from "../testkit/pki/record-opening.ts";
import { createKek, createRecord, fieldsOf } from "../testkit/pki/sealed-record.ts";

const kek = await createKek("k1");
const record = await createRecord(kek);
const { value } = record;

/** The wrong answer to a record that must be refused; `undefined` for a right refusal. */
async function wrongAnswer(text: string): Promise<string | undefined> {
  try {
    await openRecord({ ...record, value: text }, clusterLocal, [kek]);
    return "opened";
  } catch (error) {
    return error instanceof RecordError ? undefined : String(error);
  }
}

test("refuses its text with any one character changed", async () => {
  const wrong: string[] = [];
  for (let at = 0; at < value.length; at++) {
    const code = value.charCodeAt(at) ^ (1 << (at % 7));
    const answer = await wrongAnswer(
      value.slice(0, at) + String.fromCharCode(code) + value.slice(at + 1),
    );
    if (answer) wrong.push(`${at}: ${answer}`);
  }
  expect(wrong).toEqual([]);
});

test("refuses its text cut off anywhere", async () => {
  const wrong: string[] = [];
  for (let length = 0; length < value.length; length += 3) {
    const answer = await wrongAnswer(value.slice(0, length));
    if (answer) wrong.push(`${length}: ${answer}`);
  }
  expect(wrong).toEqual([]);
});

const octetFields = ["certificate", "iv", "sealedKey"] as const;

test.each(octetFields)("refuses its %s with any one bit changed", async (field) => {
  const fields = fieldsOf(record);
  const octets = Buffer.from(fields[field], "base64");
  const step = field === "iv" ? 1 : 3;
  const wrong: string[] = [];
  for (let bit = 0; bit < octets.length * 8; bit += step) {
    const changed = { ...fields, [field]: flipBit(octets, bit).toString("base64") };
    const answer = await wrongAnswer(JSON.stringify(changed));
    if (answer) wrong.push(`${bit}: ${answer}`);
  }
  expect(wrong).toEqual([]);
});
