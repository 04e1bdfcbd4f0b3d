import type { Bytes } from "../pki/encoding/bytes.ts";

/** A key-encryption key: 256 bits of AES-GCM that WebCrypto never exports. */
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

/**
 * @param octets {@link kekOctets} of them, fresh from a random source.
 * @param signer The named signer whose records it seals. Each has a key of its own, so that no record
 *   opens in the place of another signer's; without a name, the octets are the key.
 */
export async function importKek(id: string, octets: Bytes, signer?: string): Promise<Kek> {
  const own =
    signer === undefined ? octets : await deriveOctets(octets, `rampart signer ${signer}`);
  // Node's provider decrypts: it makes its own key of the octets, where WebCrypto would unwrap one.
  const [key, statementKey] = await Promise.all([
    crypto.subtle.importKey("raw", own, "AES-GCM", false, ["wrapKey", "unwrapKey", "decrypt"]),
    deriveStatementKey(own),
  ]);
  return { id, key, statementKey };
}

/** HKDF with SHA-256 (RFC 5869), without salt: the input is uniformly random already. */
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
