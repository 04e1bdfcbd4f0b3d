import type { JWK } from "jose";
import { exportJWK } from "jose/key/export";
import type { Bytes } from "./encoding/bytes.ts";
import {
  type DsaEncoding,
  SignatureAlgorithm,
  type SignatureScheme,
} from "./signature-algorithm.ts";
import { SubjectPublicKey } from "./x509/subject-public-key.ts";

/** A private key that signs. Code that holds it cannot export the key. */
export interface SigningKey {
  readonly algorithm: SignatureAlgorithm;
  /** How `sign` encodes an ECDSA signature. */
  readonly dsaEncoding: DsaEncoding;
  readonly sign: (bytes: Bytes) => Bytes | Promise<ArrayBuffer>;
}

/** The parameters of AES-GCM: the IV, and the data that it authenticates together with the key. */
export interface SealParameters {
  readonly name: "AES-GCM";
  readonly iv: Bytes;
  readonly additionalData: Bytes;
}

/** A private key (PKCS#8) under AES-GCM, with the key that decrypts it. */
interface WrappedKey {
  readonly octets: Bytes;
  readonly wrappingKey: CryptoKey;
  readonly parameters: SealParameters;
}

/**
 * A platform's way to sign, to verify, and to open keys for both. Rare operations use WebCrypto itself.
 *
 * Code that holds an opened key can use the key and cannot export it.
 */
export interface CryptoProvider {
  /** The encoding of ECDSA signatures that {@link verify} expects. */
  readonly dsaEncoding: DsaEncoding;
  /**
   * Whether this is a signature over the bytes by a key, which is not cached. `undefined` for a key that
   * cannot be imported, such as a point that is not on its curve.
   *
   * @param spki SubjectPublicKeyInfo, DER.
   */
  readonly verify: (
    spki: Bytes,
    scheme: SignatureScheme,
    signature: Bytes,
    bytes: Bytes,
  ) => boolean | undefined | Promise<boolean | undefined>;
  /** Decrypts and imports a private key; rejects when it does not decrypt or is of another algorithm. */
  readonly unwrapSigningKey: (
    wrapped: WrappedKey,
    algorithm: SignatureAlgorithm,
  ) => Promise<SigningKey>;
  /**
   * Requires that the platform's own verifier reads the certificate of another CA, as that of a CA. WebCrypto has no
   * verifier, so its provider accepts all.
   *
   * @throws DerError for any other certificate.
   */
  readonly requireReadable: (der: Bytes) => void;
}

const { subtle } = crypto;

/** The `CryptoKey` of a signing key. */
interface CryptoKeyHolder {
  readonly cryptoKey: CryptoKey;
}

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
): SigningKey & CryptoKeyHolder {
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
