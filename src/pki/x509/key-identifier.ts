import { sha256 } from "@noble/hashes/sha2.js";
import type { Bytes } from "../encoding/bytes.ts";
import type { SubjectPublicKey } from "./subject-public-key.ts";

const fresh = sha256.create();
const hash = sha256.create();
const digest = new Uint8Array(32);

/**
 * The key identifier of a public key: the leftmost 160 bits of the SHA-256 hash of its octets
 * (RFC 7093 §2 method 1, what Go computes since 1.25).
 *
 * Not by WebCrypto: a hash of two blocks takes less than a promise and the way to it.
 */
export function keyIdentifier({ keyOctets }: SubjectPublicKey): Bytes {
  // Begun anew in place: a hash for each key would allocate all that it works in.
  fresh._cloneInto(hash).update(keyOctets).digestInto(digest);
  return digest.slice(0, 20);
}
