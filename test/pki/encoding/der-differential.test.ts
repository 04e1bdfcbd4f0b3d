import * as asn1js from "asn1js";
import fc from "fast-check";
import { expect, test } from "vitest";
import { DerError, DerReader } from "../../../src/pki/encoding/der-reader.ts";
import { derElement } from "../../../src/pki/encoding/internal/der-writer.ts";
import { changeAt, hex, inHex, type Octets } from "../../testkit/der/mutation.ts";
import {
  type DerTree,
  derTrees,
  hasEndOfContents,
  shortestDer,
  toAsn1js,
} from "../../testkit/der/trees.ts";
import { derUnsignedInteger } from "../../testkit/der/writing.ts";

const write = ({ tag, children, content = "" }: DerTree): Uint8Array<ArrayBuffer> =>
  children ? derElement(tag, ...children.map(write)) : derElement(tag, hex(content));

/** Reads the tree element by element. */
function read(reader: DerReader, { tag, children }: DerTree): DerTree {
  expect(reader.nextIs(tag)).toBe(true);
  if (!children) return { tag, content: inHex(reader.content(tag)) };
  const inside = reader.enter(tag);
  const found = children.map((child) => read(inside, child));
  inside.finish();
  return { tag, children: found };
}

const encode = (tree: DerTree): Uint8Array<ArrayBuffer> => new Uint8Array(toAsn1js(tree).toBER());

test("writes what asn1js writes, reads it, and skips it whole, for any tree", () => {
  fc.assert(
    fc.property(derTrees, (tree) => {
      const bytes = encode(tree);
      expect(inHex(write(tree))).toBe(inHex(bytes));
      const reader = new DerReader(bytes);
      expect(read(reader, tree)).toEqual(tree);
      reader.finish();
      new DerReader(bytes).skipAll();
      expect(inHex(new DerReader(bytes).element(tree.tag))).toBe(inHex(bytes));
    }),
    { numRuns: 1000 },
  );
});

/** Faults in the framing of one element. */
const damages: Record<string, (element: Octets) => Octets> = {
  "a length in the long form": longForm,
  "a tag of more than one octet": (element) => Buffer.concat([hex("1f"), element]),
  "a last octet missing": (element) => element.subarray(0, -1),
  "a stray octet at the end": (element) => Buffer.concat([element, hex("05")]),
};

function longForm(element: Octets): Octets {
  const [tag = 0, first = 0] = element;
  if (first < 0x80) return Buffer.concat([Buffer.from([tag, 0x81, first]), element.subarray(2)]);
  return Buffer.concat([Buffer.from([tag, first + 1, 0]), element.subarray(2)]);
}

/** The path to the last element, some levels down. Nothing comes after it. */
function lastPath({ children = [] }: DerTree, levels: number): number[] {
  const last = children.at(-1);
  return last && levels > 0 ? [children.length - 1, ...lastPath(last, levels - 1)] : [];
}

test.each(Object.entries(damages))("refuses any tree with %s", (_, damage) => {
  fc.assert(
    fc.property(derTrees, fc.nat({ max: 5 }), (tree, levels) => {
      const bytes = changeAt(Buffer.from(encode(tree)), lastPath(tree, levels), damage);
      const reader = new DerReader(bytes);
      expect(() => reader.skipAll()).toThrow(DerError);
    }),
    { numRuns: 200 },
  );
});

/**
 * Octets that are valid DER now and then. As tags, they are of types whose content asn1js does not parse
 * either.
 */
const nearlyDer = fc
  .array(fc.constantFrom(0x30, 0x31, 0xa0, 0x04, 0x04, 0x00, 0x80, 0x81, 0x82, 0x1f), {
    maxLength: 14,
  })
  .map((octets) => Buffer.from(octets));

/** Whether asn1js reads the octets as one element that they encode in the shortest form. */
function isOneElementOfDer(octets: Octets): boolean {
  const { offset, result } = asn1js.fromBER(octets);
  if (octets.length === 0 || offset !== octets.length || hasEndOfContents(result)) return false;
  return inHex(shortestDer(result)) === inHex(octets);
}

test("accepts exactly those octets that asn1js reads and would write", () => {
  let accepted = 0;
  fc.assert(
    fc.property(nearlyDer, (octets) => {
      const isAccepted = readsWhole(octets);
      if (isAccepted) accepted += 1;
      expect(isAccepted).toBe(isOneElementOfDer(octets));
    }),
    { numRuns: 4000 },
  );
  expect(accepted).toBeGreaterThan(20);
});

function readsWhole(octets: Octets): boolean {
  try {
    const reader = new DerReader(octets);
    const tag = octets[0] ?? 0;
    new DerReader(octets).skipAll();
    reader.element(tag);
    reader.finish();
    return true;
  } catch (error) {
    if (error instanceof DerError) return false;
    throw error;
  }
}

test("writes unsigned integers as asn1js does, however many zeros come first", () => {
  const value = fc.bigInt({ min: 0n, max: (1n << 521n) - 1n });
  fc.assert(
    fc.property(value, fc.nat({ max: 5 }), (number, zeros) => {
      const digits = number.toString(16);
      const magnitude = hex("00".repeat(zeros) + (digits.length % 2 ? `0${digits}` : digits));
      const ours = derUnsignedInteger(magnitude);
      expect(inHex(ours)).toBe(inHex(new Uint8Array(asn1js.Integer.fromBigInt(number).toBER())));
      const read = new DerReader(ours).unsignedInteger();
      expect(BigInt(`0x${inHex(read)}`)).toBe(number);
    }),
    { numRuns: 1000 },
  );
});

test("accepts exactly those integers of asn1js that are not negative", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(1n << 130n), max: 1n << 130n }), (number) => {
      const bytes = new Uint8Array(asn1js.Integer.fromBigInt(number).toBER());
      const magnitude = () => new DerReader(bytes).unsignedInteger();
      if (number < 0n) expect(magnitude).toThrow(DerError);
      else expect(BigInt(`0x${inHex(magnitude())}`)).toBe(number);
    }),
    { numRuns: 500 },
  );
});
