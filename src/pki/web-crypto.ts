import type { CryptoProvider, SigningKey } from "./crypto-provider.ts";
import type { SignatureAlgorithm } from "./signature-algorithm.ts";

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
