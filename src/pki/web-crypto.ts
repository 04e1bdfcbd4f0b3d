import type { JWK } from "jose";
import { exportJWK } from "jose/key/export";
import type { CryptoProvider, SigningKey } from "./crypto-provider.ts";
import type { Bytes } from "./encoding/bytes.ts";
import { SignatureAlgorithm } from "./signature-algorithm.ts";
import { SubjectPublicKey } from "./x509/subject-public-key.ts";

const { subtle } = crypto;

/** WebCrypto, which every platform has. Private keys are unwrapped without passing through this code. */
export const webCryptoProvider: CryptoProvider = {
  dsaEncoding: "ieee-p1363",
  verify: (spki, { importParameters, signParameters }, signature, bytes) =>
    subtle.importKey("spki", spki, importParameters, false, ["verify"]).then(
      (key) => subtle.verify(signParameters, key, signature, bytes),
      () => undefined,
    ),
  unwrapSigningKey: async ({ octets, wrappingKey, parameters }, algorithm) => {
    const { importParameters } = algorithm;
    const key = await subtle.unwrapKey(
      "pkcs8",
      octets,
      wrappingKey,
      parameters,
      importParameters,
      false,
      ["sign"],
    );
    return webSigningKey(key, algorithm);
  },
  requireReadable: () => {},
};

/** Makes a signing key of a private `CryptoKey`. Its ECDSA signatures have the form of IEEE P1363. */
export function webSigningKey(
  cryptoKey: CryptoKey,
  algorithm: SignatureAlgorithm,
): SigningKey & { readonly cryptoKey: CryptoKey } {
  const { signParameters } = algorithm;
  return {
    algorithm,
    dsaEncoding: "ieee-p1363",
    cryptoKey,
    sign: (bytes) => subtle.sign(signParameters, cryptoKey, bytes),
  };
}

/** The members of a public key in a JWK (RFC 7518 §6). */
export type PublicJwk = Pick<JWK, "kty" | "alg" | "crv" | "x" | "y" | "n" | "e" | "pub">;

/**
 * Exports a public key as a JWK of its public members alone (RFC 7517 §4).
 *
 * @param spki SubjectPublicKeyInfo, DER.
 * @throws DerError, CaError `subject-key-unacceptable`
 */
export async function publicJwk(spki: Bytes): Promise<PublicJwk> {
  const { importParameters } = SignatureAlgorithm.of(SubjectPublicKey.parse(spki));
  return exportJWK(await subtle.importKey("spki", spki, importParameters, true, ["verify"]));
}
