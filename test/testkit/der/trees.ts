import * as asn1js from "asn1js";
import fc from "fast-check";
import { der, hex, type Octets } from "./mutation.ts";

/** A DER value as a tree, with which tests compare both the code under test and asn1js. */
export interface DerTree {
  readonly tag: number;
  readonly children?: readonly DerTree[];
  /** The content octets of a primitive in hexadecimal. */
  readonly content?: string;
}

const text = (octets: Uint8Array): string => Buffer.from(octets).toString("hex");

const primitive: fc.Arbitrary<DerTree> = fc.oneof(
  fc.record({
    tag: fc.constantFrom(0x04, 0x0c, 0x80, 0x82, 0x86, 0x9e),
    content: fc.uint8Array({ maxLength: 300 }).map(text),
  }),
  fc.record({
    tag: fc.constant(0x04),
    // These lengths are at the borders of the short form, of one length octet and of two.
    content: fc.constantFrom(127, 128, 255, 256, 65_535, 65_536).map((n) => "5a".repeat(n)),
  }),
  fc.record({
    tag: fc.constant(0x02),
    content: fc.bigInt({ min: 0n, max: 1n << 160n }).map(integer),
  }),
  fc.record({
    tag: fc.constant(0x03),
    content: fc.uint8Array({ maxLength: 80 }).map((bits) => `00${text(bits)}`),
  }),
  fc.constantFrom(
    { tag: 0x05, content: "" },
    { tag: 0x01, content: "ff" },
    { tag: 0x06, content: "2a8648ce3d030107" },
    { tag: 0x06, content: "551d11" },
  ),
);

function integer(value: bigint): string {
  const digits = value.toString(16);
  const even = digits.length % 2 ? `0${digits}` : digits;
  return Number.parseInt(even.slice(0, 2), 16) >= 0x80 ? `00${even}` : even;
}

/** Trees of every type that X.509 uses, up to ten levels deep. */
export const derTrees: fc.Arbitrary<DerTree> = fc.letrec<{ tree: DerTree }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "small", maxDepth: 10 },
    primitive,
    fc.record({
      tag: fc.constantFrom(0x30, 0x31, 0xa0, 0xa3),
      children: fc.array(tie("tree"), { maxLength: 4 }),
    }),
  ),
})).tree;

/** The tree in the types of asn1js, which encodes them. */
export function toAsn1js({ tag, children, content = "" }: DerTree): asn1js.BaseBlock {
  const idBlock = { tagClass: tag >= 0x80 ? 3 : 1, tagNumber: tag & 0x1f };
  if (children) {
    const value = children.map(toAsn1js);
    if (tag === 0x30) return new asn1js.Sequence({ value });
    if (tag === 0x31) return new asn1js.Set({ value });
    return new asn1js.Constructed({ idBlock, value });
  }
  if (tag >= 0x80) return new asn1js.Primitive({ idBlock, valueHex: arrayBuffer(content) });
  const { result } = asn1js.fromBER(der(tag, hex(content)));
  return result;
}

/** Whether the block has an end-of-contents of BER anywhere. DER has none. */
export function hasEndOfContents(block: asn1js.AsnType): boolean {
  // asn1js parses the content of an OCTET STRING by guessing, so the guesses do not count.
  const { value = [] } = block.valueBlock as { value?: asn1js.AsnType[] };
  const inside = block.idBlock.isConstructed ? value : [];
  return block instanceof asn1js.EndOfContent || inside.some(hasEndOfContents);
}

/** Encodes a block of asn1js again, with the shortest lengths. */
export function shortestDer(block: asn1js.AsnType): Octets {
  const { tagClass, tagNumber, isConstructed } = block.idBlock;
  const tag = ((tagClass - 1) << 6) | (isConstructed ? 0x20 : 0) | tagNumber;
  const { value, valueHexView } = block.valueBlock as {
    value?: asn1js.AsnType[];
    valueHexView?: Uint8Array;
  };
  return isConstructed
    ? der(tag, ...(value ?? []).map(shortestDer))
    : der(tag, valueHexView ?? new Uint8Array(0));
}

const arrayBuffer = (content: string): ArrayBuffer => new Uint8Array(hex(content)).buffer;
