import type { Bytes } from "./encoding/bytes.ts";
import {
  type DsaEncoding,
  isOfModulusLength,
  type SignatureAlgorithm,
  type SignatureScheme,
  signatureAlgorithmOf,
} from "./signature-algorithm.ts";
import { parseSubjectPublicKey } from "./x509/subject-public-key.ts";

/** A private key that signs. Code that holds it cannot export the key. */
export interface SigningKey {
  readonly algorithm: SignatureAlgorithm;
  /** How `sign` encodes an ECDSA signature. */
  readonly dsaEncoding: DsaEncoding;
  readonly sign: (bytes: Bytes) => Bytes | Promise<ArrayBuffer>;
}

/** A public key that verifies signatures of one scheme. */
export interface PublicKey {
  /** @param signature ECDSA as `r || s`, which is how JWS carries it (RFC 7518 §3.4). */
  readonly verify: (signature: Bytes, bytes: Bytes) => boolean | Promise<boolean>;
}

/** AES-GCM with what it authenticates beside the key. */
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
  /** How {@link verify} takes an ECDSA signature. */
  readonly dsaEncoding: DsaEncoding;
  /**
   * Whether this is a signature over the bytes by a key that is used once. `undefined` for a key that
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
   * Requires that the platform's own verifier reads the certificate of another CA, and takes it for an
   * authority's. WebCrypto reads no certificates.
   *
   * @throws DerError
   */
  readonly requireReadable: (der: Bytes) => void;
  /** Imports a public JWK (RFC 7517); rejects when it is not a key of the scheme. */
  readonly importPublicKey: (jwk: JsonWebKey, scheme: SignatureScheme) => Promise<PublicKey>;
}

const { subtle } = crypto;

/** A handle on a key that WebCrypto holds. */
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
  importPublicKey: async (jwk, { importParameters, signParameters }) => {
    const cryptoKey = await subtle.importKey("jwk", jwk, importParameters, false, ["verify"]);
    const modulusLength = modulusLengthOf(cryptoKey.algorithm);
    const publicKey: PublicKey & CryptoKeyHolder = {
      cryptoKey,
      verify: (signature, bytes) =>
        isOfModulusLength(signature, modulusLength) &&
        subtle.verify(signParameters, cryptoKey, signature, bytes),
    };
    return publicKey;
  },
};

/** In bits; `undefined` of a key that is not of RSA. */
const modulusLengthOf = (algorithm: KeyAlgorithm): number | undefined =>
  "modulusLength" in algorithm ? Number(algorithm.modulusLength) : undefined;

/** A key of WebCrypto's as the key of a signer. */
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
export type PublicJwk = Pick<JsonWebKey, "kty" | "crv" | "x" | "y" | "n" | "e">;

/** A public key as a JWK. @throws DerError, CaError `subject-key-unacceptable` */
export async function publicJwk(spki: Bytes): Promise<PublicJwk> {
  const { importParameters } = signatureAlgorithmOf(parseSubjectPublicKey(spki));
  const key = await subtle.importKey("spki", spki, importParameters, true, ["verify"]);
  const { kty, crv, x, y, n, e } = await subtle.exportKey("jwk", key);
  return Object.fromEntries(
    Object.entries({ kty, crv, x, y, n, e }).filter(([, member]) => member !== undefined),
  );
}
