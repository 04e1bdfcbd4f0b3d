import type { Bytes } from "../bytes.ts";
import { DerError, type DerReader, Tag } from "../der-reader.ts";

const numericString = 0x12;
const ia5String = 0x16;

/** Whether octets are the content of a universal type, in DER (X.690 §8 and §11). */
const isContent: ReadonlyMap<number, (octets: Bytes) => boolean> = new Map([
  [Tag.boolean, ([octet, ...more]) => more.length === 0 && (octet === 0x00 || octet === 0xff)],
  [Tag.integer, isMinimalInteger],
  [Tag.bitString, isBitString],
  [Tag.null, (octets) => octets.length === 0],
  [Tag.objectIdentifier, isObjectIdentifier],
  [Tag.utf8String, isUtf8],
  // X.680 §41.4, and two characters more that OpenSSL and Go read as well.
  [Tag.printableString, (octets) => /^[A-Za-z0-9 '()+,\-./:=?*&]*$/.test(asciiOf(octets))],
  [numericString, (octets) => /^[0-9 ]*$/.test(asciiOf(octets))],
  [ia5String, (octets) => octets.every((octet) => octet < 0x80)],
]);

/** Requires that all that is left is DER at every level, and each value one that its type allows. @throws DerError */
export function requireValues(reader: DerReader): void {
  reader.skipAll((tag, content) => {
    if (isContent.get(tag)?.(content.rest()) === false) {
      throw new DerError("a value that its type does not have");
    }
  });
}

const asciiOf = (octets: Bytes): string => String.fromCharCode(...octets);

function isMinimalInteger([first, second]: Bytes): boolean {
  if (first === undefined || second === undefined) return first !== undefined;
  const isSignAlone = (first === 0x00 && second < 0x80) || (first === 0xff && second >= 0x80);
  return !isSignAlone;
}

function isBitString([unused = 8, ...octets]: Bytes): boolean {
  const last = octets.at(-1) ?? 0;
  const hasUnusedZeros = (last & ((1 << unused) - 1)) === 0;
  return unused < (octets.length > 0 ? 8 : 1) && hasUnusedZeros;
}

/** Go's crypto/x509 reads no arc above 2^31 - 1. */
const arcLimit = 2 ** 31;

function isObjectIdentifier(octets: Bytes): boolean {
  let arc = 0;
  let isFirst = true;
  for (const octet of octets) {
    if (isFirst && octet === 0x80) return false;
    arc = arc * 128 + (octet & 0x7f);
    if (arc >= arcLimit) return false;
    isFirst = octet < 0x80;
    if (isFirst) arc = 0;
  }
  return octets.length > 0 && isFirst;
}

function isUtf8(octets: Bytes): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(octets);
    return true;
  } catch {
    return false;
  }
}

/** Reads the next OBJECT IDENTIFIER in dotted form. @throws DerError for any other element. */
export function readObjectIdentifier(reader: DerReader): string {
  const content = reader.enter(Tag.objectIdentifier);
  const arcs: bigint[] = [];
  do arcs.push(readArc(content));
  while (!content.isDone);
  const [first = 0n, ...others] = arcs;
  const top = first < 80n ? first / 40n : 2n;
  return [top, first - 40n * top, ...others].join(".");
}

function readArc(content: DerReader): bigint {
  let arc = 0n;
  for (let octet = 0x80; octet >= 0x80; ) {
    octet = content.octet();
    if (arc === 0n && octet === 0x80) throw new DerError("an arc that is not minimal");
    arc = (arc << 7n) | BigInt(octet & 0x7f);
  }
  return arc;
}
