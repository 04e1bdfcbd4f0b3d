import type { Bytes } from "./bytes.ts";

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const urlAlphabet = `${alphabet.slice(0, 62)}-_`;

const valuesOf = (symbols: string): Uint8Array => {
  const values = new Uint8Array(128).fill(0xff);
  for (let i = 0; i < 64; i++) values[symbols.charCodeAt(i)] = i;
  return values;
};

const values = valuesOf(alphabet);
const urlValues = valuesOf(urlAlphabet);

/** Standard base64 with padding (RFC 4648 §4), on one line. */
export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (const octet of bytes) binary += String.fromCharCode(octet);
  return btoa(binary);
}

/**
 * The octets of padded standard base64 (RFC 4648 §4), canonical and without white space.
 *
 * @returns `undefined` for anything else: each caller has its own refusal.
 */
export function parseBase64(text: string): Bytes | undefined {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  if (text.length % 4 !== 0) return undefined;
  return decode(text, text.length - padding, values);
}

/** The octets of unpadded base64url (RFC 7515 §2), canonical; `undefined` for anything else. */
export function parseBase64Url(text: string): Bytes | undefined {
  return decode(text, text.length, urlValues);
}

function decode(text: string, length: number, valueOfSymbol: Uint8Array): Bytes | undefined {
  const tail = length % 4;
  if (tail === 1) return undefined;
  const bytes = new Uint8Array((length * 3) >> 2);
  let written = 0;
  let pending = 0;
  let pendingBits = 0;
  for (let i = 0; i < length; i++) {
    const value = valueOfSymbol[text.charCodeAt(i)] ?? 0xff;
    if (value === 0xff) return undefined;
    pending = ((pending << 6) | value) & 0xfff;
    pendingBits += 6;
    if (pendingBits >= 8) {
      pendingBits -= 8;
      bytes[written++] = pending >> pendingBits;
    }
  }
  const isCanonical = (pending & ((1 << pendingBits) - 1)) === 0;
  return isCanonical ? bytes : undefined;
}
