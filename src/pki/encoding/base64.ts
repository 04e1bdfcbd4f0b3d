import { allocateBytes, type Bytes } from "./bytes.ts";

interface Options {
  readonly alphabet: "base64" | "base64url";
  readonly lastChunkHandling: "strict" | "loose";
}

/** What the platform may have: Workers do, Node 24 does not. */
interface NativeBase64 {
  readonly setFromBase64?: (
    text: string,
    options: Options,
  ) => { readonly read: number; readonly written: number };
  readonly toBase64?: () => string;
}

const { setFromBase64, toBase64: native } = Uint8Array.prototype as NativeBase64;

/** Standard base64 with padding (RFC 4648 §4), on one line. */
export function toBase64(bytes: Uint8Array): string {
  if (native) return native.call(bytes);
  let binary = "";
  for (const octet of bytes) binary += String.fromCharCode(octet);
  return btoa(binary);
}

/**
 * The octets of padded standard base64 (RFC 4648 §4), canonical and without white space. They have a
 * buffer of their own: they may be a secret.
 *
 * @returns `undefined` for anything else: each caller has its own refusal.
 */
export function parseBase64(text: string): Bytes | undefined {
  return /[\t\n\f\r ]/.test(text) ? undefined : decodePadded(text, new Uint8Array(text.length));
}

/**
 * {@link parseBase64} of a text in lines, and of no secret: CR and LF are read past wherever they are,
 * and nothing else.
 */
export function parseBase64Lines(text: string): Bytes | undefined {
  const hasSpace = text.includes(" ") || text.includes("\t") || text.includes("\f");
  return hasSpace ? undefined : decodePadded(text, allocateBytes(text.length));
}

/** Strict: the padding must be there, and the bits that are left over zero (RFC 4648 §3.5). */
const padded: Options = { alphabet: "base64", lastChunkHandling: "strict" };

/** @param place For one octet a symbol: one that is full would end the reading early, without a word. */
function decodePadded(text: string, place: Bytes): Bytes | undefined {
  return attempt(() => {
    if (setFromBase64) return place.subarray(0, setFromBase64.call(place, text, padded).written);
    const symbols = text.replace(/[\r\n]/g, "");
    const binary = atob(symbols);
    // atob forgives; there is but one way back.
    return btoa(binary) === symbols ? place.subarray(0, write(binary, place)) : undefined;
  });
}

/**
 * The octets of unpadded base64url (RFC 7515 §2), canonical; `undefined` for anything else.
 *
 * @param into Where they are written if there is room for them: what is read at once needs no place of
 *   its own.
 */
export function parseBase64Url(text: string, into?: Bytes): Bytes | undefined {
  const length = (text.length * 3) >> 2;
  const place = into && into.length >= length ? into.subarray(0, length) : allocateBytes(length);
  // Padding and white space, which decoders read past, stand for no octet.
  const isWhole = text.length % 4 !== 1 && attempt(() => fills(text, place));
  return isWhole && hasNoSpareBits(text) ? place : undefined;
}

/** Lenient towards padding, so that none has to be put on; the caller looks at what this forgives. */
const unpadded: Options = { alphabet: "base64url", lastChunkHandling: "loose" };

/** Decodes base64url and says whether all of it is there now, and is all that is there. */
function fills(text: string, place: Bytes): boolean {
  if (setFromBase64) {
    // A place that is full ends the reading early, without a word.
    const { read, written } = setFromBase64.call(place, text, unpadded);
    return read === text.length && written === place.length;
  }
  if (/[+/]/.test(text)) return false;
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return binary.length === place.length && write(binary, place) === place.length;
}

/** RFC 4648 §3.5: bits that are left over must be zero, or one value has two spellings. */
function hasNoSpareBits(text: string): boolean {
  const tail = text.length % 4;
  const endings = tail === 2 ? "AQgw" : "AEIMQUYcgkosw048";
  return tail === 0 || endings.includes(text.charAt(text.length - 1));
}

/** Writes one octet a character, as many as it returns. Uint8Array.from takes thirty times as long. */
function write(binary: string, place: Bytes): number {
  for (let i = 0; i < binary.length; i++) place[i] = binary.charCodeAt(i);
  return binary.length;
}

/** What decoders throw for a wrong symbol: a SyntaxError, and atob an InvalidCharacterError. */
function attempt<T>(decode: () => T): T | undefined {
  try {
    return decode();
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof DOMException) return undefined;
    throw error;
  }
}
