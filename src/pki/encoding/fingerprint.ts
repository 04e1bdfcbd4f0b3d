import { sha256 } from "@noble/hashes/sha2.js";
import { toHex } from "./bytes.ts";

/** The SHA-256 of octets in hexadecimal, as OpenSSL's `-fingerprint` has it without colons. */
export const fingerprintOf = (octets: Uint8Array): string => toHex(sha256(octets));
