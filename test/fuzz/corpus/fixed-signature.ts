import { createHash, sign } from "node:crypto";
import { der, derInteger, type Octets } from "../../testkit/der/mutation.ts";
import { curves, numberOf, octetsOf, signDigest } from "../../testkit/ecdsa.ts";
import { type SignatureName, signatureIdentifier } from "../../testkit/pki/csr.ts";
import type { FixedKey } from "./fixed-keys.ts";
import { fixedOctets } from "./fixed-octets.ts";

/** Signs with SHA-256 in the encoding of X.509. The same bytes always get the same signature. */
export function signForX509(key: FixedKey, bytes: Uint8Array): Octets {
  const scalars = ecdsaScalars(key, bytes);
  if (scalars) return der(0x30, derInteger(scalars.r), derInteger(scalars.s));
  return Buffer.from(sign(key.kind === "RSA" ? "sha256" : null, bytes, key.privateKey));
}

/** Signs with SHA-256 in the encoding of JWS (RFC 7518 §3.4). */
export function signForJws(key: FixedKey, bytes: Uint8Array): Octets {
  const scalars = ecdsaScalars(key, bytes);
  if (!scalars) return signForX509(key, bytes);
  return Buffer.concat([octetsOf(scalars.r, 32), octetsOf(scalars.s, 32)]);
}

/** The AlgorithmIdentifier of {@link signForX509}. */
export function identifierOf({ kind }: FixedKey): Octets {
  const names: Partial<Record<FixedKey["kind"], SignatureName>> = {
    RSA: "sha256WithRSAEncryption",
    Ed25519: "Ed25519",
  };
  return signatureIdentifier[names[kind] ?? "ecdsa-with-SHA256"];
}

/** The nonce follows from key and bytes, so that a case can be reproduced. */
function ecdsaScalars({ kind, privateKey }: FixedKey, bytes: Uint8Array) {
  if (kind === "RSA" || kind === "Ed25519") return undefined;
  const d = numberOf(Buffer.from(privateKey.export({ format: "jwk" }).d ?? "", "base64url"));
  const digest = numberOf(createHash("sha256").update(bytes).digest());
  const { order } = curves[kind];
  const nonce = (numberOf(fixedOctets(`nonce ${d} ${digest}`, 80)) % (order - 1n)) + 1n;
  return signDigest(curves[kind], d, digest, nonce);
}
