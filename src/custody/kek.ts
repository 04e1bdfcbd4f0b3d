import type { Bytes } from "../pki/bytes.ts";

/** A key-encryption key: 256 bits of AES-GCM that never leave WebCrypto again. */
export interface Kek {
  /** Chosen by the operator; says which key a record was sealed with. */
  readonly id: string;
  readonly key: CryptoKey;
  /** HMAC-SHA-256 over what is authentic but no secret; derived, so that the KEK itself only wraps. */
  readonly statementKey: CryptoKey;
}

/** Every KEK that may open a record, the one that seals first. */
export type KekRing = readonly [Kek, ...Kek[]];

/** The octets of a KEK: 256 random bits, not a password. */
export const kekOctets = 32;

/** @param octets {@link kekOctets} of them, fresh from a random source. */
export async function importKek(id: string, octets: Bytes): Promise<Kek> {
  const [key, statementKey] = await Promise.all([
    crypto.subtle.importKey("raw", octets, "AES-GCM", false, ["wrapKey", "unwrapKey"]),
    deriveStatementKey(octets),
  ]);
  return { id, key, statementKey };
}

/** HKDF with SHA-256 (RFC 5869), without salt: the input is uniformly random already. */
async function deriveStatementKey(octets: Bytes): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey("raw", octets, "HKDF", false, ["deriveKey"]);
  const info = new TextEncoder().encode("rampart statement");
  return crypto.subtle.deriveKey(
    { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info },
    base,
    { name: "HMAC", hash: "SHA-256", length: 256 },
    false,
    ["sign", "verify"],
  );
}
