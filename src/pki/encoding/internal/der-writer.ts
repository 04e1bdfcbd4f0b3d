import type { Bytes } from "../bytes.ts";
import { Tag } from "../der-reader.ts";

/** One DER element: the tag, a minimal length, and the parts as its content. */
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

/** A SEQUENCE of elements, each of them DER. */
export function derSequence(...elements: readonly Uint8Array[]): Bytes {
  return derElement(Tag.sequence, ...elements);
}

const encoder = new TextEncoder();

/** The UTF-8 octets of a text, as the content of a string type. */
export function derText(text: string): Bytes {
  return encoder.encode(text) as Bytes;
}
