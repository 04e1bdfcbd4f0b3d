import type { Bytes } from "./encoding/bytes.ts";
import type { DsaEncoding, SignatureAlgorithm, SignatureScheme } from "./signature-algorithm.ts";

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
   * Whether this is a signature over the bytes by a key. `undefined` for a key that cannot be imported, such as a point
   * that is not on its curve. The imported key is not cached.
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
   * Requires that the platform's own verifier can read the certificate of another CA, and takes it for a CA's. WebCrypto
   * has no verifier, so its provider accepts all.
   *
   * @throws DerError for any other certificate.
   */
  readonly requireReadable: (der: Bytes) => void;
}
