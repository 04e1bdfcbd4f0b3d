import type { Bytes } from "../pki/bytes.ts";

/** A key-encryption key: 256 bits of AES-GCM that never leave WebCrypto again. */
export interface Kek {
  /** Chosen by the operator; says which key a record was sealed with. */
  readonly id: string;
  readonly key: CryptoKey;
}

/** Every KEK that may open a record, the one that seals first. */
export type KekRing = readonly [Kek, ...Kek[]];

/** The octets of a KEK: 256 random bits, not a password. */
export const kekOctets = 32;

/** @param octets {@link kekOctets} of them, fresh from a random source. */
export async function importKek(id: string, octets: Bytes): Promise<Kek> {
  const key = await crypto.subtle.importKey("raw", octets, "AES-GCM", false, [
    "wrapKey",
    "unwrapKey",
  ]);
  return { id, key };
}
