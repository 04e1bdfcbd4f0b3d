import { sha256 } from "@noble/hashes/sha2.js";
import type { Bytes } from "./bytes.ts";
import type { SubjectPublicKey } from "./subject-public-key.ts";

/**
 * The key identifier of a public key: the leftmost 160 bits of the SHA-256 hash of its octets
 * (RFC 7093 §2 method 1, what Go computes since 1.25).
 *
 * Not by WebCrypto: a hash of two blocks takes less than a promise and the way to it.
 */
export function keyIdentifier({ keyOctets }: SubjectPublicKey): Bytes {
  return sha256(keyOctets).subarray(0, 20) as Bytes;
}
