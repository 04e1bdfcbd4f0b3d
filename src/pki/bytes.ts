/** Bytes that WebCrypto and KV accept: never backed by shared memory. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** Joins the parts in order, in one allocation. */
export function concatBytes(...parts: readonly Uint8Array[]): Bytes {
  let length = 0;
  for (const part of parts) length += part.length;
  const joined = new Uint8Array(length);
  let offset = 0;
  for (const part of parts) {
    joined.set(part, offset);
    offset += part.length;
  }
  return joined;
}

/** Compares public bytes; it stops at the first difference, so never use it on a secret. */
export function bytesEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

const hexOfOctet: readonly string[] = Array.from({ length: 256 }, (_, octet) =>
  octet.toString(16).padStart(2, "0"),
);

/** Lower-case hexadecimal, two digits an octet, no separators. */
export function toHex(bytes: Uint8Array): string {
  let hex = "";
  for (const octet of bytes) hex += hexOfOctet[octet];
  return hex;
}

/** The octets of a literal written in this code. Not a parser: it checks nothing. */
export function fromHexLiteral(hex: string): Bytes {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  }
  return bytes;
}
