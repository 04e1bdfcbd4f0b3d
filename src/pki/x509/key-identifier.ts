import { sha1 } from "@noble/hashes/legacy.js";
import { sha256 } from "@noble/hashes/sha2.js";
import type { Bytes } from "../encoding/bytes.ts";
import type { SubjectPublicKey } from "./subject-public-key.ts";

const fresh = sha256.create();
const hash = sha256.create();
const digest = new Uint8Array(32);

/**
 * The key identifier of a public key: the leftmost 160 bits of the SHA-256 of its octets (RFC 7093 §2
 * method 1). Go's `x509.CreateCertificate` computes the same since 1.25.
 *
 * WebCrypto is not used: hashing two blocks here takes less time than its promise.
 */
export function keyIdentifier({ keyOctets }: SubjectPublicKey): Bytes {
  // A copied initial state saves the buffers that a new hash would allocate for each key.
  fresh._cloneInto(hash).update(keyOctets).digestInto(digest);
  return digest.slice(0, 20);
}

/**
 * The key identifier of an issuer whose certificate has none: the SHA-1 of its key's octets (RFC 5280
 * §4.2.1.2 method 1). Every leaf must have an authority key identifier (§4.2.1.1).
 */
export function fallbackKeyIdentifier({ keyOctets }: SubjectPublicKey): Bytes {
  return sha1(keyOctets);
}
