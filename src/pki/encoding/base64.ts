import { allocateBytes, type Bytes } from "./bytes.ts";

type Alphabet = "base64" | "base64url";

/** Methods that Workers have and Node 24 lacks. */
interface NativeBase64 {
  readonly setFromBase64?: (
    text: string,
    options: { readonly alphabet: Alphabet },
  ) => { readonly written: number };
  readonly toBase64?: (options: {
    readonly alphabet: Alphabet;
    readonly omitPadding: boolean;
  }) => string;
}

const { setFromBase64, toBase64 } = Uint8Array.prototype as NativeBase64;

/** Node's Buffer, which does the same: `btoa` needs a string of the octets first, and takes forty times as long. */
interface NodeBuffer {
  readonly from: (
    buffer: ArrayBufferLike,
    byteOffset: number,
    length: number,
  ) => {
    readonly toString: (encoding: Alphabet) => string;
    /** @returns The number of octets that it has written. */
    readonly write: (text: string, encoding: Alphabet) => number;
  };
}

const { Buffer } = globalThis as unknown as { readonly Buffer: NodeBuffer };

/** A view of the same octets. */
const bufferOf = ({ buffer, byteOffset, length }: Uint8Array) =>
  Buffer.from(buffer, byteOffset, length);

/** Base64 and base64url (RFC 4648). */
export const Base64 = {
  /** Standard base64 with padding (RFC 4648 §4), on one line. */
  format: (bytes: Uint8Array): string => format(bytes, "base64"),

  /** Base64url without padding (RFC 7515 §2). */
  formatUrl: (bytes: Uint8Array): string => format(bytes, "base64url"),

  /**
   * The octets of padded standard base64 (RFC 4648 §4), canonical and without white space. They may be a
   * secret, so they get a buffer of their own.
   *
   * @returns `undefined` for anything else, because each caller has its own refusal.
   */
  parse: (text: string): Bytes | undefined => decode(text, "base64", new Uint8Array(text.length)),

  /**
   * {@link Base64.parse} for a text in lines that is not a secret. It skips CR and LF anywhere, and no other
   * white space.
   */
  parseLines(text: string): Bytes | undefined {
    return decode(text.replace(/[\r\n]+/g, ""), "base64", allocateBytes(text.length));
  },

  /**
   * The octets of unpadded base64url (RFC 7515 §2), canonical; `undefined` for anything else.
   *
   * @param into A buffer that is used if it has room for the octets. A caller that uses the octets at once saves an
   *   allocation.
   */
  parseUrl(text: string, into?: Bytes): Bytes | undefined {
    const hasRoom = into !== undefined && into.length >= text.length;
    return decode(text, "base64url", hasRoom ? into : allocateBytes(text.length));
  },
};

function format(bytes: Uint8Array, alphabet: Alphabet): string {
  if (!toBase64) return bufferOf(bytes).toString(alphabet);
  return toBase64.call(bytes, { alphabet, omitPadding: alphabet === "base64url" });
}

/**
 * Decoders read several texts as the same octets: with white space, without padding, with unused bits that are not zero.
 * Of these, only the one that is written for the octets is accepted (RFC 4648 §3.5).
 */
function decode(text: string, alphabet: Alphabet, target: Bytes): Bytes | undefined {
  const octets = target.subarray(0, writeInto(target, text, alphabet));
  return format(octets, alphabet) === text ? octets : undefined;
}

/** @returns The number of octets that are written: fewer than the text has if a symbol is wrong. */
function writeInto(target: Bytes, text: string, alphabet: Alphabet): number {
  if (!setFromBase64) return bufferOf(target).write(text, alphabet);
  try {
    return setFromBase64.call(target, text, { alphabet }).written;
  } catch (error) {
    if (error instanceof SyntaxError) return 0;
    throw error;
  }
}
