/** The hashes that signatures are made over. Ed25519 has its own. */
export type Hash = "SHA-256" | "SHA-384" | "SHA-512";

/** One way to sign, as WebCrypto describes it. */
export interface SignatureScheme {
  readonly importParameters: RsaHashedImportParams | EcKeyImportParams | Algorithm;
  readonly signParameters: AlgorithmIdentifier | EcdsaParams | RsaPssParams;
  /** `undefined` for Ed25519. */
  readonly hash: Hash | undefined;
  /** Octets of r and of s when the signature is ECDSA, else `undefined`. */
  readonly scalarOctets: number | undefined;
}

const scalarOctets = { "P-256": 32, "P-384": 48, "P-521": 66 } as const;

/** The curves of FIPS 186-5 that keys may lie on. */
export type Curve = keyof typeof scalarOctets;

/** ECDSA with any of the hashes on any of the curves. */
export const ecdsa = (namedCurve: Curve, hash: Hash): SignatureScheme => ({
  importParameters: { name: "ECDSA", namedCurve },
  signParameters: { name: "ECDSA", hash },
  hash,
  scalarOctets: scalarOctets[namedCurve],
});

/** RSASSA-PKCS1-v1_5 (RFC 8017 §8.2). */
export const rsaPkcs1 = (hash: Hash): SignatureScheme => ({
  importParameters: { name: "RSASSA-PKCS1-v1_5", hash },
  signParameters: "RSASSA-PKCS1-v1_5",
  hash,
  scalarOctets: undefined,
});

/** RSASSA-PSS (RFC 8017 §8.1) with a salt as long as the hash, which JWS demands (RFC 7518 §3.5). */
export const rsaPss = (hash: Hash): SignatureScheme => ({
  importParameters: { name: "RSA-PSS", hash },
  signParameters: { name: "RSA-PSS", saltLength: Number(hash.slice(4)) / 8 },
  hash,
  scalarOctets: undefined,
});

/** Ed25519 (RFC 8032). */
export const ed25519: SignatureScheme = {
  importParameters: { name: "Ed25519" },
  signParameters: "Ed25519",
  hash: undefined,
  scalarOctets: undefined,
};

/**
 * Whether a signature is as long as it has to be under an RSA key (RFC 8017 §8.1.2, §8.2.2); of other keys
 * it says yes. OpenSSL verifies a signature of PSS without its leading zeros, too.
 *
 * @param modulusLength In bits.
 */
export function isOfModulusLength(
  signature: Uint8Array,
  modulusLength: number | undefined,
): boolean {
  return modulusLength === undefined || signature.length === Math.ceil(modulusLength / 8);
}
