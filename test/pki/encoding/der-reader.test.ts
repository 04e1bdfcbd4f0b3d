import { expect, test } from "vitest";
import { DerError, DerReader, Tag } from "../../../src/pki/encoding/der-reader.ts";
import { derElement } from "../../../src/pki/encoding/internal/der-writer.ts";
import { der, hex, inHex } from "../../testkit/der/mutation.ts";
import { derBitString } from "../../testkit/der/writing.ts";
import { readVectors } from "../../testkit/pki/vectors.ts";

interface Vector {
  readonly name: string;
  readonly read: string;
  /** `{7f}` stands for as many octets of content. */
  readonly der: string;
  /** The content that is read. Absent when the reader must refuse. */
  readonly value?: string;
}

const vectors = readVectors<Vector>("der-reader");

const octetsOf = (vector: Vector): Uint8Array<ArrayBuffer> =>
  hex(vector.der.replace(/\{(..)\}/, (_, count) => "5a".repeat(Number.parseInt(count, 16))));

/** The methods of the reader by name. */
const reads: Record<string, (reader: DerReader) => Uint8Array | undefined> = {
  unsignedInteger: (reader) => reader.unsignedInteger(),
  bitStringOctets: (reader) => reader.bitStringOctets(),
  element: (reader) => reader.element(Tag.sequence),
  skipAll: (reader) => void reader.skipAll(),
  literal: (reader) => void reader.literal(hex("020100")),
  finish: (reader) => {
    reader.enter(Tag.sequence).finish();
    reader.finish();
    return undefined;
  },
};

const accepted = vectors.filter(({ value }) => value !== undefined);
const refused = vectors.filter(({ value }) => value === undefined);

test.each(accepted)("reads $name", (vector) => {
  const reader = new DerReader(octetsOf(vector));
  expect(inHex(reads[vector.read]?.(reader) ?? hex(""))).toBe(vector.value);
  expect(reader.isDone).toBe(true);
});

test.each(refused)("refuses $name", (vector) => {
  const reader = new DerReader(octetsOf(vector));
  expect(() => reads[vector.read]?.(reader)).toThrow(DerError);
});

const borders = [0, 1, 127, 128, 129, 255, 256, 257, 65_535, 65_536, 65_537];

test.each(borders)("writes and reads an element of %i octets", (length) => {
  const content = Buffer.alloc(length, 0x5a);
  const written = derElement(Tag.octetString, content);
  expect(inHex(written)).toBe(inHex(der(0x04, content)));
  const reader = new DerReader(written);
  expect(reader.content(Tag.octetString).length).toBe(length);
  reader.finish();
});

test("writes the count of unused bits before the octets of a BIT STRING", () => {
  expect(inHex(derBitString(hex("abcd")))).toBe("030300abcd");
});

test("expects no tag at the end", () => {
  const reader = new DerReader(hex("0500"));
  expect([reader.nextIs(Tag.null), reader.nextIs(Tag.boolean)]).toEqual([true, false]);
  reader.content(Tag.null);
  expect(reader.nextIs(Tag.null)).toBe(false);
});

test("does not read beyond the element that it entered", () => {
  const outer = new DerReader(hex("3003 0403ab cdef"));
  const inner = outer.enter(Tag.sequence);
  expect(() => inner.content(Tag.octetString)).toThrow(DerError);
});
