import type { Bytes } from "./encoding/bytes.ts";
import type { SignatureAlgorithm } from "./x509/signature-algorithm.ts";

/** What WebCrypto takes as the algorithm of a signature. */
export type SignatureParameters = string | Algorithm | EcdsaParams | RsaPssParams;

/** The cryptography of every request. What is rare goes to WebCrypto itself. */
export interface Cryptography {
  /** Whether keys are imported so that nothing can export them again. */
  readonly keepsKeys: boolean;
  /** Whether a signature over these bytes is the key's. */
  readonly verify: (
    parameters: SignatureParameters,
    key: CryptoKey,
    signature: Bytes,
    bytes: Bytes,
  ) => boolean | Promise<boolean>;
  /** The same for a key that is used once; nothing for one that is none, such as a point beside its curve. */
  readonly verifyBy: (
    spki: Bytes,
    algorithm: SignatureAlgorithm,
    signature: Bytes,
    bytes: Bytes,
  ) => boolean | undefined | Promise<boolean | undefined>;
  /** ECDSA as `r || s`. */
  readonly sign: (
    parameters: SignatureParameters,
    key: CryptoKey,
    bytes: Bytes,
  ) => ArrayBuffer | Promise<ArrayBuffer>;
}

const { subtle } = crypto;

/** WebCrypto, which every platform has. */
const webCryptography: Cryptography = {
  keepsKeys: true,
  verify: (parameters, key, signature, bytes) => subtle.verify(parameters, key, signature, bytes),
  verifyBy: (spki, { importParameters, signParameters }, signature, bytes) =>
    subtle.importKey("spki", spki, importParameters, false, ["verify"]).then(
      (key) => subtle.verify(signParameters, key, signature, bytes),
      () => undefined,
    ),
  sign: (parameters, key, bytes) => subtle.sign(parameters, key, bytes),
};

/** The one in use. */
export let cryptography: Cryptography = webCryptography;

/** For a program to call once, at its start, on a platform with something faster than WebCrypto. */
export function useCryptography(faster: Cryptography): void {
  cryptography = faster;
}
