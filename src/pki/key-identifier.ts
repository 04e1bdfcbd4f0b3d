import type { Bytes } from "./bytes.ts";
import { cryptography } from "./cryptography.ts";
import type { SubjectPublicKey } from "./subject-public-key.ts";

/**
 * The key identifier of a public key: the leftmost 160 bits of the SHA-256 hash of its octets
 * (RFC 7093 §2 method 1, what Go computes since 1.25).
 */
export async function keyIdentifier(key: SubjectPublicKey): Promise<Bytes> {
  return (await cryptography.sha256(key.keyOctets)).subarray(0, 20);
}
