import type { Bytes } from "./bytes.ts";
import { Tag } from "./der-reader.ts";

/** One DER element: the tag, the minimal length, and the parts as its content. */
export function derElement(tag: number, ...parts: readonly Uint8Array[]): Bytes {
  let length = 0;
  for (const part of parts) length += part.length;
  const lengthOctets = length < 0x80 ? 0 : length < 0x100 ? 1 : length < 0x10000 ? 2 : 3;
  const der = new Uint8Array(2 + lengthOctets + length);
  der[0] = tag;
  der[1] = lengthOctets === 0 ? length : 0x80 | lengthOctets;
  for (let i = 0; i < lengthOctets; i++) der[1 + lengthOctets - i] = length >> (8 * i);
  let offset = 2 + lengthOctets;
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
  const year = instant.getUTCFullYear();
  const century = year < 2050 ? [] : [Math.floor(year / 100)];
  const pairs = [
    ...century,
    year % 100,
    instant.getUTCMonth() + 1,
    instant.getUTCDate(),
    instant.getUTCHours(),
    instant.getUTCMinutes(),
    instant.getUTCSeconds(),
  ];
  const der = new Uint8Array(2 + 2 * pairs.length + 1);
  der[0] = year < 2050 ? Tag.utcTime : Tag.generalizedTime;
  der[1] = der.length - 2;
  for (const [i, pair] of pairs.entries()) {
    der[2 + 2 * i] = digit0 + Math.floor(pair / 10);
    der[3 + 2 * i] = digit0 + (pair % 10);
  }
  der[der.length - 1] = zulu;
  return der;
}

const digit0 = 0x30;
const zulu = 0x5a;

const encoder = new TextEncoder();

/** The octets of a text, for a string type that they fit. */
export function derText(text: string): Bytes {
  return encoder.encode(text) as Bytes;
}

/**
 * Writes one DER value from its last octet to its first: when a header's turn comes, the length of its
 * content is known, and nothing is copied twice.
 */
export class DerBuilder {
  readonly #octets: Bytes;
  #start: number;

  /** @param room At least as many octets as will be written. */
  constructor(room: number) {
    this.#octets = new Uint8Array(room);
    this.#start = room;
  }

  /** Where the value begins so far: what is prepended from here on can be closed up to here. */
  get position(): number {
    return this.#start;
  }

  prepend(bytes: Uint8Array): void {
    this.#start -= bytes.length;
    this.#octets.set(bytes, this.#start);
  }

  /** Prepends ASCII. */
  prependText(text: string): void {
    this.#start -= text.length;
    encoder.encodeInto(text, this.#octets.subarray(this.#start));
  }

  /** Puts the tag and the length in front of what has been written since `end` was the position. */
  close(tag: number, end: number): void {
    const length = end - this.#start;
    let left = length;
    let count = 0;
    if (length >= 0x80) {
      for (; left > 0; left >>= 8, count++) this.#octets[--this.#start] = left;
    }
    this.#octets[--this.#start] = count === 0 ? length : 0x80 | count;
    this.#octets[--this.#start] = tag;
  }

  finish(): Bytes {
    return this.#octets.subarray(this.#start);
  }
}
