import type { Bytes } from "../pki/encoding/bytes.ts";

/** A key-encryption key: 256 bits of AES-GCM that WebCrypto never exports. */
export interface Kek {
  /** The operator's name for the key. A record names the KEK that sealed it. */
  readonly id: string;
  readonly key: CryptoKey;
  /** Authenticates statements, with HMAC-SHA-256. It is derived, so that each key has one purpose. */
  readonly statementKey: CryptoKey;
}

/** Every KEK that may open a record. The first one seals. */
export type KekRing = readonly [Kek, ...Kek[]];

/** The length of a KEK: 256 random bits, never a password. */
export const kekOctets = 32;

/**
 * Imports a KEK, or derives the KEK of a named signer from it.
 *
 * @param octets {@link kekOctets} octets from a random source.
 * @param signer The named signer whose records the KEK seals. Each signer has its own KEK, so that no
 *   record opens in the place of another signer's. Without a name, the octets are the KEK.
 */
export async function importKek(id: string, octets: Bytes, signer?: string): Promise<Kek> {
  const own =
    signer === undefined ? octets : await deriveOctets(octets, `rampart signer ${signer}`);
  // WebCrypto's provider unwraps a key; Node's decrypts its octets and makes a KeyObject of them.
  const [key, statementKey] = await Promise.all([
    crypto.subtle.importKey("raw", own, "AES-GCM", false, ["wrapKey", "unwrapKey", "decrypt"]),
    deriveStatementKey(own),
  ]);
  return { id, key, statementKey };
}

/** HKDF with SHA-256 (RFC 5869). It needs no salt, because the input is uniformly random. */
const hkdf = (purpose: string): HkdfParams => ({
  name: "HKDF",
  hash: "SHA-256",
  salt: new Uint8Array(),
  info: new TextEncoder().encode(purpose),
});

async function deriveOctets(octets: Bytes, purpose: string): Promise<Bytes> {
  const base = await crypto.subtle.importKey("raw", octets, "HKDF", false, ["deriveBits"]);
  return new Uint8Array(await crypto.subtle.deriveBits(hkdf(purpose), base, 8 * kekOctets));
}

async function deriveStatementKey(octets: Bytes): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey("raw", octets, "HKDF", false, ["deriveKey"]);
  return crypto.subtle.deriveKey(
    hkdf("rampart statement"),
    base,
    { name: "HMAC", hash: "SHA-256", length: 256 },
    false,
    ["sign", "verify"],
  );
}
