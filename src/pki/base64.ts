import type { Bytes } from "./bytes.ts";

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const urlAlphabet = `${alphabet.slice(0, 62)}-_`;

/** Above every value of a symbol, and still there when values are joined by `|`. */
const invalid = 0x80;

const symbolValues = (symbols: string): Uint8Array => {
  const values = new Uint8Array(256).fill(invalid);
  for (let i = 0; i < 64; i++) values[symbols.charCodeAt(i)] = i;
  return values;
};

const standard = symbolValues(alphabet);
const url = symbolValues(urlAlphabet);

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
  return decodeBase64(encoder.encode(text) as Bytes);
}

interface NativeBase64 {
  readonly fromBase64?: (text: string, options: { readonly lastChunkHandling: "strict" }) => Bytes;
}

/** Several times faster than code of ours where the platform has it: Workers do, Node 24 does not. */
const { fromBase64 } = Uint8Array as unknown as NativeBase64;

/** {@link parseBase64} of a text in lines: CR and LF are read past wherever they are, and nothing else. */
export function parseBase64Lines(text: string): Bytes | undefined {
  if (!fromBase64) return decodeBase64(joinLines(encoder.encode(text) as Bytes));
  // The platform reads past these as well.
  if (/[\t\f ]/.test(text)) return undefined;
  try {
    return fromBase64(text, { lastChunkHandling: "strict" });
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** The octets between the line ends, moved together in place. */
function joinLines(text: Bytes): Bytes {
  let length = 0;
  for (const octet of text) {
    if (octet !== newline && octet !== carriageReturn) text[length++] = octet;
  }
  return text.subarray(0, length);
}

const newline = 0x0a;
const carriageReturn = 0x0d;

/** The octets of unpadded base64url (RFC 7515 §2), canonical; `undefined` for anything else. */
export function parseBase64Url(text: string): Bytes | undefined {
  return decodeBase64Url(encoder.encode(text) as Bytes);
}

const encoder = new TextEncoder();

/**
 * {@link parseBase64} of a text as ASCII, in place: what it returns is a view into what it was given,
 * whose symbols are gone. Octets are read several times faster than a string.
 */
export function decodeBase64(symbols: Bytes): Bytes | undefined {
  if (symbols.length % 4 !== 0) return undefined;
  const padding = symbols.at(-1) !== pad ? 0 : symbols.at(-2) !== pad ? 1 : 2;
  return decode(symbols.subarray(0, symbols.length - padding), standard);
}

/** {@link parseBase64Url} of a text as ASCII, in place. */
export function decodeBase64Url(symbols: Bytes): Bytes | undefined {
  return decode(symbols, url);
}

const pad = 0x3d;

/** Three octets never take the place of symbols that are still to be read: there were four of those. */
function decode(symbols: Bytes, values: Uint8Array): Bytes | undefined {
  const tail = symbols.length % 4;
  if (tail === 1) return undefined;
  let pending = 0;
  let seen = 0;
  let written = 0;
  for (let i = 0; i < symbols.length; i++) {
    const value = values[symbols[i] ?? 0] ?? invalid;
    seen |= value;
    pending = (pending << 6) | value;
    // After the second, third and fourth symbol of four there is another octet to take.
    if (i & 3) symbols[written++] = pending >> (6 - 2 * (i & 3));
  }
  // RFC 4648 §3.5: bits that are left over must be zero, or one value has two spellings.
  const leftover = tail === 2 ? 0x0f : tail === 3 ? 0x03 : 0;
  return seen & invalid || pending & leftover ? undefined : symbols.subarray(0, written);
}
