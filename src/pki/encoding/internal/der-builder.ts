import { allocateBytes, type Bytes } from "../bytes.ts";
import { Tag } from "../der-reader.ts";

/** An instant as {@link DerBuilder.prependTime} writes it. */
export function derTime(instant: Date): Bytes {
  const der = new DerBuilder(maximumHeader + 15);
  der.prependTime(instant);
  return der.finish();
}

const timeTagOf = (instant: Date): number =>
  instant.getUTCFullYear() < 2050 ? Tag.utcTime : Tag.generalizedTime;

/** The octets that a tag and a length below 16 MiB take. */
const maximumHeader = 5;

const digit0 = 0x30;
const zulu = 0x5a;

/** The value of a digit of lower-case hexadecimal, by its ASCII code. */
const hexDigit = (code: number): number => (code <= 0x39 ? code - 0x30 : code - 0x57);

/**
 * Writes one DER value from its last octet to its first: the length of a content is known when its header is written, and
 * nothing is copied twice.
 */
export class DerBuilder {
  readonly #octets: Bytes;
  #start: number;

  /** @param capacity How many octets to allocate: at least as many as the value takes. */
  constructor(capacity: number) {
    this.#octets = allocateBytes(capacity);
    this.#start = capacity;
  }

  /** The start of the value so far. Pass it to {@link close} as the end of the element that is written next. */
  get position(): number {
    return this.#start;
  }

  /**
   * Copies octets in front of the value so far. The buffer does not grow: octets beyond its length throw a RangeError.
   */
  prepend(bytes: Uint8Array): void {
    this.#start -= bytes.length;
    this.#octets.set(bytes, this.#start);
  }

  /** Prepends ASCII. */
  prependText(text: string): void {
    this.#start -= text.length;
    for (let i = 0; i < text.length; i++) this.#octets[this.#start + i] = text.charCodeAt(i);
  }

  /** Prepends the octets of a text in hexadecimal. */
  prependHex(hex: string): void {
    for (let i = hex.length; i > 0; i -= 2) {
      this.#octets[--this.#start] =
        (hexDigit(hex.charCodeAt(i - 2)) << 4) | hexDigit(hex.charCodeAt(i - 1));
    }
  }

  /** Prepends a non-negative INTEGER. Its magnitude is big-endian and may have leading zeros. */
  prependUnsignedInteger(octets: Uint8Array, from = 0, to: number = octets.length): void {
    const end = this.#start;
    let first = from;
    while (first < to - 1 && octets[first] === 0) first++;
    for (let i = to; i > first; ) this.#octets[--this.#start] = octets[--i] ?? 0;
    if ((octets[first] ?? 0) >= 0x80) this.#octets[--this.#start] = 0;
    this.close(Tag.integer, end);
  }

  /**
   * Prepends an instant with seconds and Z, by default in the form of RFC 5280 §4.1.2.5: UTCTime until 2049,
   * GeneralizedTime from 2050. It cuts off fractions of a second.
   */
  prependTime(instant: Date, tag: number = timeTagOf(instant)): void {
    const end = this.#start;
    this.#octets[--this.#start] = zulu;
    this.#prependPair(instant.getUTCSeconds());
    this.#prependPair(instant.getUTCMinutes());
    this.#prependPair(instant.getUTCHours());
    this.#prependPair(instant.getUTCDate());
    this.#prependPair(instant.getUTCMonth() + 1);
    const year = instant.getUTCFullYear();
    this.#prependPair(year % 100);
    if (tag === Tag.generalizedTime) this.#prependPair(Math.floor(year / 100));
    this.close(tag, end);
  }

  #prependPair(number: number): void {
    this.#octets[--this.#start] = digit0 + (number % 10);
    this.#octets[--this.#start] = digit0 + Math.floor(number / 10);
  }

  /** Prepends the tag and the length of the content that was written since `end` was the position. */
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

  /** Prepends an element with this content. */
  prependElement(tag: number, content: Uint8Array): void {
    const end = this.#start;
    this.prepend(content);
    this.close(tag, end);
  }

  /** Closes the content that was written since `end` as a BIT STRING without unused bits. */
  closeBitString(end: number): void {
    this.#octets[--this.#start] = 0;
    this.close(Tag.bitString, end);
  }

  /** The value, as a view of the buffer. @throws RangeError if it did not fit. */
  finish(): Bytes {
    if (this.#start < 0) throw new RangeError("more was written than there was room for");
    return this.#octets.subarray(this.#start);
  }
}
