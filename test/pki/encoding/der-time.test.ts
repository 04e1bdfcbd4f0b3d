import { fromBER, GeneralizedTime, UTCTime } from "asn1js";
import fc from "fast-check";
import { expect, test } from "vitest";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { derTime } from "../../../src/pki/encoding/internal/der-builder.ts";
import { parseToBeSigned } from "../../../src/pki/x509/certificate.ts";
import type { Validity } from "../../../src/pki/x509/validity.ts";
import { der, hex, inHex, type Octets } from "../../testkit/der/mutation.ts";
import { readVectors } from "../../testkit/pki/vectors.ts";

const first = new Date("1950-01-01T00:00:00.000Z");
const last = new Date("9999-12-31T23:59:59.999Z");
const instants = fc.date({ min: first, max: last, noInvalidDate: true });

/** The validity that the certificate reader makes of these two elements. */
const validityOf = (notBefore: Uint8Array, notAfter: Uint8Array): Validity =>
  parseToBeSigned(
    der(
      0x30,
      hex("a003020102 020101 3000 3000"),
      der(0x30, notBefore, notAfter),
      hex("3000 3000 a3023000"),
    ),
  ).validity;

const readBack = (time: Uint8Array): Date => validityOf(derTime(first), time).notAfter;

const element = ({ tag, text }: { tag: number; text: string }): Octets =>
  der(tag, Buffer.from(text, "latin1"));

interface Vector {
  readonly tag: number;
  readonly text: string;
  readonly instant?: string;
  readonly why?: string;
}

const vectors = readVectors<Vector>("der-time");
const accepted = vectors.filter(({ instant }) => instant !== undefined);
const refused = vectors.filter(({ instant }) => instant === undefined);

test.each(accepted)("writes and reads $instant as $text", (vector) => {
  const instant = new Date(vector.instant ?? "");
  expect(inHex(derTime(instant))).toBe(inHex(element(vector)));
  expect(readBack(element(vector))).toEqual(instant);
});

test.each(refused)("refuses $why", (vector) => {
  expect(() => readBack(element(vector))).toThrow(DerError);
  expect(() => validityOf(element(vector), derTime(last))).toThrow(DerError);
});

test("writes any instant as asn1js reads it, without the fraction of its second, and reads it back", () => {
  fc.assert(
    fc.property(instants, (instant) => {
      const { result } = fromBER(derTime(instant));
      expect(result).toBeInstanceOf(instant.getUTCFullYear() < 2050 ? UTCTime : GeneralizedTime);
      const seconds = Math.floor(instant.getTime() / 1000);
      expect((result as UTCTime).toDate().getTime()).toBe(seconds * 1000);
      expect(readBack(derTime(instant)).getTime()).toBe(seconds * 1000);
    }),
    { numRuns: 1000 },
  );
});

test("accepts no text for a time that it would not write", () => {
  const digits = fc.stringMatching(/^[0-9]{12,14}Z$/);
  const tags = fc.constantFrom(0x17, 0x18);
  fc.assert(
    fc.property(tags, digits, (tag, text) => {
      const time = element({ tag, text });
      const instant = readOrRefuse(time);
      if (instant) expect(inHex(derTime(instant))).toBe(inHex(time));
    }),
    { numRuns: 1500 },
  );
});

function readOrRefuse(time: Uint8Array): Date | undefined {
  try {
    return readBack(time);
  } catch (error) {
    if (error instanceof DerError) return undefined;
    throw error;
  }
}

test("refuses a validity of one time, of three, or of none", () => {
  const time = derTime(last);
  expect(() => validityOf(time, hex(""))).toThrow(DerError);
  expect(() => validityOf(time, Buffer.concat([time, time]))).toThrow(DerError);
  expect(() => validityOf(hex(""), hex(""))).toThrow(DerError);
});
