import { type Bytes, concatBytes } from "./bytes.ts";
import { Tag } from "./der-reader.ts";

/** One DER element: the tag, the minimal length, and the parts as its content. */
export function derElement(tag: number, ...parts: readonly Uint8Array[]): Bytes {
  let length = 0;
  for (const part of parts) length += part.length;
  const header = lengthOctets(length);
  const der = new Uint8Array(1 + header.length + length);
  der[0] = tag;
  der.set(header, 1);
  let offset = 1 + header.length;
  for (const part of parts) {
    der.set(part, offset);
    offset += part.length;
  }
  return der;
}

/** A SEQUENCE of elements that are DER already. */
export function derSequence(...elements: readonly Uint8Array[]): Bytes {
  return derElement(Tag.sequence, ...elements);
}

/** A non-negative INTEGER of a big-endian magnitude, which may have leading zeros. */
export function derUnsignedInteger(magnitude: Uint8Array): Bytes {
  let start = 0;
  while (start < magnitude.length - 1 && magnitude[start] === 0) start++;
  const minimal = magnitude.subarray(start);
  const needsSign = (minimal[0] ?? 0) >= 0x80;
  return derElement(Tag.integer, ...(needsSign ? [zero] : []), minimal);
}

const zero: Bytes = new Uint8Array([0]);

/** A BIT STRING without unused bits. */
export function derBitString(octets: Uint8Array): Bytes {
  return derElement(Tag.bitString, zero, octets);
}

/**
 * An instant as RFC 5280 §4.1.2.5 wants it: UTCTime until 2049, GeneralizedTime from 2050, whole
 * seconds, always Z. Fractions of a second are cut off.
 */
export function derTime(instant: Date): Bytes {
  const digits = instant.toISOString().replace(/\.\d+Z$|[-:T]/g, "");
  return instant.getUTCFullYear() < 2050
    ? derElement(Tag.utcTime, derText(`${digits.slice(2)}Z`))
    : derElement(Tag.generalizedTime, derText(`${digits}Z`));
}

const encoder = new TextEncoder();

/** The octets of a text, for a string type that they fit. */
export function derText(text: string): Bytes {
  return encoder.encode(text) as Bytes;
}

const shortLengths: readonly Bytes[] = Array.from({ length: 128 }, (_, n) => new Uint8Array([n]));

function lengthOctets(length: number): Bytes {
  const short = shortLengths[length];
  if (short) return short;
  if (length < 0x100) return new Uint8Array([0x81, length]);
  if (length < 0x10000) return new Uint8Array([0x82, length >> 8, length & 0xff]);
  return concatBytes(new Uint8Array([0x83, length >> 16, (length >> 8) & 0xff, length & 0xff]));
}
