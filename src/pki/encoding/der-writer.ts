import { allocateBytes, type Bytes } from "./bytes.ts";
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

/** An instant as {@link DerBuilder.prependTime} writes it. */
export function derTime(instant: Date): Bytes {
  const der = new DerBuilder(maximumHeader + 15);
  der.prependTime(instant);
  return der.finish();
}

/** Octets of a tag and of the length of less than 16 MiB. */
const maximumHeader = 5;

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
    this.#octets = allocateBytes(room);
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
    for (let i = 0; i < text.length; i++) this.#octets[this.#start + i] = text.charCodeAt(i);
  }

  /** Prepends a non-negative INTEGER of these octets' big-endian magnitude, which may have leading zeros. */
  prependUnsignedInteger(octets: Uint8Array, from = 0, to: number = octets.length): void {
    const end = this.#start;
    let first = from;
    while (first < to - 1 && octets[first] === 0) first++;
    for (let i = to; i > first; ) this.#octets[--this.#start] = octets[--i] ?? 0;
    if ((octets[first] ?? 0) >= 0x80) this.#octets[--this.#start] = 0;
    this.close(Tag.integer, end);
  }

  /**
   * Prepends an instant as RFC 5280 §4.1.2.5 wants it: UTCTime until 2049, GeneralizedTime from 2050,
   * whole seconds, always Z. Fractions of a second are cut off.
   */
  prependTime(instant: Date): void {
    const end = this.#start;
    const year = instant.getUTCFullYear();
    this.#octets[--this.#start] = zulu;
    this.#prependPair(instant.getUTCSeconds());
    this.#prependPair(instant.getUTCMinutes());
    this.#prependPair(instant.getUTCHours());
    this.#prependPair(instant.getUTCDate());
    this.#prependPair(instant.getUTCMonth() + 1);
    this.#prependPair(year % 100);
    if (year >= 2050) this.#prependPair(Math.floor(year / 100));
    this.close(year < 2050 ? Tag.utcTime : Tag.generalizedTime, end);
  }

  #prependPair(number: number): void {
    this.#octets[--this.#start] = digit0 + (number % 10);
    this.#octets[--this.#start] = digit0 + Math.floor(number / 10);
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

  /** Makes what has been written since `end` a BIT STRING without unused bits. */
  closeBitString(end: number): void {
    this.#octets[--this.#start] = 0;
    this.close(Tag.bitString, end);
  }

  finish(): Bytes {
    if (this.#start < 0) throw new RangeError("more was written than there was room for");
    return this.#octets.subarray(this.#start);
  }
}
