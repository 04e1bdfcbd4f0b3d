import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type AuthorityRecord,
  boundTo,
  formatAuthorityRecord,
  parseAuthorityRecord,
} from "../../src/custody/authority-record.ts";
import { RecordError } from "../../src/custody/record-fields.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { describeOpenedKeys } from "../contract/opened-keys.ts";
import {
  createKek,
  createRecord,
  type RecordFields,
  tampered,
} from "../testkit/pki/sealed-record.ts";

const kek = await createKek("k1");
const record = await createRecord(kek);

const checkOf = (value: string): RecordError["check"] | undefined => {
  try {
    parseAuthorityRecord(value);
    return undefined;
  } catch (error) {
    if (error instanceof RecordError) return error.check;
    throw error;
  }
};

const texts = fc.string({ maxLength: 30 });
const octets = fc.uint8Array({ maxLength: 40 }).map((bytes) => new Uint8Array(bytes));
const lists = fc.array(octets, { maxLength: 8 });
const instants = fc.date({
  min: new Date("1970-01-01"),
  max: new Date("9999-12-31"),
  noInvalidDate: true,
});
const records: fc.Arbitrary<AuthorityRecord> = fc.record({
  id: texts,
  trustDomain: texts,
  kek: texts,
  schedule: fc.record({
    publishedFrom: instants,
    signsFrom: instants,
    signsUntil: instants,
    retiresAt: instants,
  }),
  certificate: octets,
  intermediates: lists,
  roots: lists.filter(({ length }) => length > 0),
  iv: octets,
  sealedKey: octets,
});

test("reads back any record that it wrote", () => {
  fc.assert(
    fc.property(records, (any) => {
      const text = formatAuthorityRecord(any);
      expect(parseAuthorityRecord(text)).toMatchObject(any);
      expect(formatAuthorityRecord(parseAuthorityRecord(text))).toBe(text);
    }),
    { numRuns: 200 },
  );
});

test("any two different heads give different associated data", () => {
  const clearText = (any: AuthorityRecord) =>
    formatAuthorityRecord({ ...any, iv: new Uint8Array(), sealedKey: new Uint8Array() });
  fc.assert(
    fc.property(records, records, (one, other) => {
      const isSame = clearText(one) === clearText(other);
      expect(JSON.stringify(boundTo(one)) === JSON.stringify(boundTo(other))).toBe(isSame);
    }),
  );
});

const forms: Record<string, (fields: RecordFields) => object> = {
  "an unknown field": () => ({ note: "" }),
  "an unknown field in its schedule": ({ schedule }) => ({
    schedule: { ...schedule, x: "" },
  }),
  "no id": () => ({ id: undefined }),
  "no schedule": () => ({ schedule: undefined }),
  "no retirement": ({ schedule }) => ({ schedule: { ...schedule, retiresAt: undefined } }),
  "no roots": () => ({ roots: [] }),
  "roots as one text": ({ roots }) => ({ roots: roots[0] }),
  "nine roots": ({ roots }) => ({ roots: Array(9).fill(roots[0]) }),
  "nine intermediates": ({ roots }) => ({ intermediates: Array(9).fill(roots[0]) }),
  "a certificate of base64 without padding": () => ({ certificate: "AA" }),
  "a certificate of base64 with bits left over": () => ({ certificate: "AB==" }),
  "a certificate of PEM": ({ certificate }) => ({ certificate: `${certificate}\n` }),
  "an IV of hexadecimal digits and a stray one": () => ({ iv: "abc" }),
  "a sealed key that is null": () => ({ sealedKey: null }),
  "a schedule without milliseconds": ({ schedule }) => ({
    schedule: { ...schedule, signsFrom: "2026-03-01T00:00:00Z" },
  }),
  "a schedule with an offset": ({ schedule }) => ({
    schedule: { ...schedule, signsFrom: "2026-03-01T00:00:00.000+00:00" },
  }),
  "a schedule on the 31st of February": ({ schedule }) => ({
    schedule: { ...schedule, signsFrom: "2026-02-31T00:00:00.000Z" },
  }),
  "a schedule in numbers": ({ schedule }) => ({ schedule: { ...schedule, signsFrom: 0 } }),
  "a version as a text": () => ({ version: "1" }),
  "no version": () => ({ version: undefined }),
  "a version that is null": () => ({ version: null }),
};

test.each(Object.entries(forms))("refuses a record with %s by its form", (_, change) => {
  expect(checkOf(tampered(record, change).value)).toBe("form");
});

test("refuses a text that is longer than any record by its form", () => {
  expect(checkOf(JSON.stringify({ note: "x".repeat(1 << 20) }))).toBe("form");
});

test.each([0, 2, -1, 1.5, 2 ** 53])(
  "refuses version %d, whatever else the record holds",
  (version) => {
    expect(checkOf(tampered(record, () => ({ version })).value)).toBe("version");
    expect(checkOf(JSON.stringify({ version, shape: "of tomorrow" }))).toBe("version");
  },
);

describeOpenedKeys(webCryptoProvider, 1);
