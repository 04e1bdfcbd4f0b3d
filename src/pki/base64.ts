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
 * The octets of padded standard base64 (RFC 4648 §4), canonical and without white space.
 *
 * @returns `undefined` for anything else: each caller has its own refusal.
 */
export function parseBase64(text: string): Bytes | undefined {
  return text.includes("\n") || text.includes("\r") ? undefined : parseBase64Lines(text);
}

/** {@link parseBase64} of a text in lines: CR and LF are read past wherever they are, and nothing else. */
export function parseBase64Lines(text: string): Bytes | undefined {
  const hasSpace = text.includes(" ") || text.includes("\t") || text.includes("\f");
  return hasSpace ? undefined : decodeLines(text);
}

/** Strict: the padding must be there, and the bits that are left over zero (RFC 4648 §3.5). */
const padded: Options = { alphabet: "base64", lastChunkHandling: "strict" };

function decodeLines(text: string): Bytes | undefined {
  return attempt(() => {
    if (setFromBase64) {
      // Room for one octet a symbol: a place that is full would end the reading early, without a word.
      const octets = allocateBytes(text.length);
      return octets.subarray(0, setFromBase64.call(octets, text, padded).written);
    }
    const symbols = text.replace(/[\r\n]/g, "");
    const binary = atob(symbols);
    // atob forgives; there is but one way back.
    return btoa(binary) === symbols ? octetsOf(binary) : undefined;
  });
}

/**
 * The octets of unpadded base64url (RFC 7515 §2), canonical; `undefined` for anything else.
 *
 * @param into Where they are written if there is room for as many octets as symbols: what is read at
 *   once needs no place of its own.
 */
export function parseBase64Url(text: string, into?: Bytes): Bytes | undefined {
  const length = (text.length * 3) >> 2;
  const octets = attempt(() => decodeUrl(text, placeFor(length, into)));
  // Padding and white space, which decoders read past, stand for no octet.
  const isWhole = text.length % 4 !== 1 && octets?.length === length;
  return isWhole && hasNoSpareBits(text) ? octets : undefined;
}

function placeFor(length: number, into: Bytes | undefined): Bytes {
  return into && into.length >= length ? into.subarray(0, length) : allocateBytes(length);
}

/** Lenient towards padding, so that none has to be put on; the caller looks at what this forgives. */
const unpadded: Options = { alphabet: "base64url", lastChunkHandling: "loose" };

function decodeUrl(text: string, place: Bytes): Bytes | undefined {
  if (!setFromBase64) {
    if (/[+/]/.test(text)) return undefined;
    return octetsOf(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
  }
  // A place that is full ends the reading early, without a word.
  const { read, written } = setFromBase64.call(place, text, unpadded);
  return read === text.length && written === place.length ? place : undefined;
}

/** RFC 4648 §3.5: bits that are left over must be zero, or one value has two spellings. */
function hasNoSpareBits(text: string): boolean {
  const tail = text.length % 4;
  const endings = tail === 2 ? "AQgw" : "AEIMQUYcgkosw048";
  return tail === 0 || endings.includes(text.charAt(text.length - 1));
}

function octetsOf(binary: string): Bytes {
  return Uint8Array.from(binary, (octet) => octet.charCodeAt(0));
}

/** What decoders throw for a wrong symbol: a SyntaxError, and atob an InvalidCharacterError. */
function attempt(decode: () => Bytes | undefined): Bytes | undefined {
  try {
    return decode();
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof DOMException) return undefined;
    throw error;
  }
}
