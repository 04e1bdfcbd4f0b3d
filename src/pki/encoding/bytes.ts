import { sha256 } from "@noble/hashes/sha2.js";

/** Bytes that WebCrypto and KV accept: never backed by shared memory. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** The size of the buffer that is shared by short-lived octets of many requests. */
const slabOctets = 64 * 1024;
let slab: Bytes = new Uint8Array(0);
let slabUsed = 0;

/**
 * Zeroed octets for a short-lived value that is not a secret.
 *
 * They are part of a larger buffer, because engines take microseconds to allocate a buffer for each
 * array. No part is handed out twice.
 */
export function allocateBytes(length: number): Bytes {
  if (length > slabOctets / 4) return new Uint8Array(length);
  if (length > slab.length - slabUsed) {
    slab = new Uint8Array(slabOctets);
    slabUsed = 0;
  }
  slabUsed += length;
  return slab.subarray(slabUsed - length, slabUsed);
}

/** Compares octets. */
export const Bytes = {
  /** Compares public bytes. It stops at the first difference, so it must not compare secrets. */
  equal(a: Uint8Array, b: Uint8Array): boolean {
    if (a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
    return true;
  },
};

const hexOfOctet: readonly string[] = Array.from({ length: 256 }, (_, octet) =>
  octet.toString(16).padStart(2, "0"),
);

/** Workers have this method, Node 24 lacks it. */
const { toHex: nativeToHex } = Uint8Array.prototype as { readonly toHex?: () => string };

/** Hexadecimal, in lower case. */
export const Hex = {
  /** Lower-case hexadecimal without separators. */
  format(bytes: Uint8Array): string {
    if (nativeToHex) return nativeToHex.call(bytes);
    let hex = "";
    for (const octet of bytes) hex += hexOfOctet[octet];
    return hex;
  },

  /** The octets of a literal in this code. It checks nothing, so it must not parse input. */
  parseLiteral(hex: string): Bytes {
    const bytes = new Uint8Array(hex.length / 2);
    for (let i = 0; i < bytes.length; i++) {
      bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
    }
    return bytes;
  },
};

/** The SHA-256 of octets in hexadecimal, like that of OpenSSL's `-fingerprint`, without colons. */
export const fingerprintOf = (octets: Uint8Array): string => Hex.format(sha256(octets));
