import { allocateBytes, type Bytes } from "./bytes.ts";

interface Options {
  readonly alphabet: "base64" | "base64url";
  readonly lastChunkHandling: "strict" | "loose";
}

/** Methods that Workers have and Node 24 lacks. */
interface NativeBase64 {
  readonly setFromBase64?: (
    text: string,
    options: Options,
  ) => { readonly read: number; readonly written: number };
  readonly toBase64?: () => string;
}

const { setFromBase64, toBase64: native } = Uint8Array.prototype as NativeBase64;

/** Node's Buffer, which does the same: `btoa` needs a string of the octets first, and takes forty times as long. */
interface NodeBuffer {
  readonly from: (
    buffer: ArrayBufferLike,
    byteOffset: number,
    length: number,
  ) => {
    readonly toString: (encoding: Options["alphabet"]) => string;
    /** Takes symbols of either alphabet and skips all others. @returns The octets that it has written. */
    readonly write: (text: string, encoding: Options["alphabet"]) => number;
  };
}

const { Buffer } = globalThis as unknown as { readonly Buffer: NodeBuffer };

/** A view of the same octets. */
const bufferOf = ({ buffer, byteOffset, length }: Uint8Array) =>
  Buffer.from(buffer, byteOffset, length);

/** Base64 and base64url (RFC 4648). */
export const Base64 = {
  /** Standard base64 with padding (RFC 4648 §4), on one line. */
  format: (bytes: Uint8Array): string =>
    native ? native.call(bytes) : bufferOf(bytes).toString("base64"),

  /** Base64url without padding (RFC 7515 §2). */
  formatUrl: (bytes: Uint8Array): string =>
    Base64.format(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""),

  /**
   * The octets of padded standard base64 (RFC 4648 §4), canonical and without white space. They may be a
   * secret, so they get a buffer of their own.
   *
   * @returns `undefined` for anything else, because each caller has its own refusal.
   */
  parse(text: string): Bytes | undefined {
    return /[\t\n\f\r ]/.test(text) ? undefined : decodePadded(text, new Uint8Array(text.length));
  },

  /**
   * {@link Base64.parse} for a text in lines that is not a secret. It skips CR and LF anywhere, and no other
   * white space.
   */
  parseLines(text: string): Bytes | undefined {
    const hasSpace = text.includes(" ") || text.includes("\t") || text.includes("\f");
    return hasSpace ? undefined : decodePadded(text, allocateBytes(text.length));
  },

  /**
   * The octets of unpadded base64url (RFC 7515 §2), canonical; `undefined` for anything else.
   *
   * @param into A buffer that is used if it has room for the octets. A caller that uses the octets at once saves an
   *   allocation.
   */
  parseUrl(text: string, into?: Bytes): Bytes | undefined {
    const length = (text.length * 3) >> 2;
    const target = into && into.length >= length ? into.subarray(0, length) : allocateBytes(length);
    // Decoders skip padding and white space. A text with these gives fewer octets than the target has, and is refused.
    const isWhole = text.length % 4 !== 1 && attempt(() => fills(text, target));
    return isWhole && hasNoSpareBits(text) ? target : undefined;
  },
};

/** `strict` requires the padding, and that unused bits are zero (RFC 4648 §3.5). */
const padded: Options = { alphabet: "base64", lastChunkHandling: "strict" };

/** Decodes padded base64. @param target Needs an octet for each symbol: if it were full, decoding would silently end. */
function decodePadded(text: string, target: Bytes): Bytes | undefined {
  return attempt(() => {
    if (setFromBase64) return target.subarray(0, setFromBase64.call(target, text, padded).written);
    const octets = target.subarray(0, bufferOf(target).write(text, "base64"));
    // Node reads several texts as the same octets, of which only the canonical one is accepted.
    return Base64.format(octets) === text.replace(/[\r\n]/g, "") ? octets : undefined;
  });
}

/** `loose` accepts a text without padding. The caller checks what else it accepts. */
const unpadded: Options = { alphabet: "base64url", lastChunkHandling: "loose" };

/** Decodes base64url. @returns Whether the whole text gave exactly as many octets as the target has. */
function fills(text: string, target: Bytes): boolean {
  if (setFromBase64) {
    // Decoding ends silently when the target is full, so `read` is compared.
    const { read, written } = setFromBase64.call(target, text, unpadded);
    return read === text.length && written === target.length;
  }
  const buffer = bufferOf(target);
  buffer.write(text, "base64url");
  return buffer.toString("base64url") === text;
}

/** Whether the unused bits of the last symbol are zero (RFC 4648 §3.5): otherwise one value has several encodings. */
function hasNoSpareBits(text: string): boolean {
  const tail = text.length % 4;
  const endings = tail === 2 ? "AQgw" : "AEIMQUYcgkosw048";
  return tail === 0 || endings.includes(text.charAt(text.length - 1));
}

/** Runs a decoder; `undefined` for a wrong symbol, for which it throws a SyntaxError. */
function attempt<T>(decode: () => T): T | undefined {
  try {
    return decode();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
