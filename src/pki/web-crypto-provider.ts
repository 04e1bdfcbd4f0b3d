import type { CryptoProvider, PublicKey, SigningKey } from "./crypto-provider.ts";
import { isOfModulusLength, type SignatureAlgorithm } from "./signature-algorithm.ts";

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
