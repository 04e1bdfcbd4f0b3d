import type { CryptoProvider, PublicKey } from "../../pki/crypto-provider.ts";
import { type JwsAlgorithm, jwsSchemes } from "./jws-algorithm.ts";
import type { KeySet, PublishedKey } from "./key-set.ts";

/** A public key of an issuer, imported for an algorithm when a token first needs it. */
export interface VerificationKey extends PublishedKey {
  readonly opened: ReadonlyMap<JwsAlgorithm, PublicKey>;
  /** Imports the key for one of its algorithms; rejects when it is not a key. */
  readonly open: (algorithm: JwsAlgorithm) => Promise<PublicKey>;
}

/** The keys of an issuer as a platform verifies with them. */
export const verificationKeys = (
  keys: KeySet,
  cryptoProvider: CryptoProvider,
): readonly VerificationKey[] => keys.map((key) => verificationKey(key, cryptoProvider));

function verificationKey(key: PublishedKey, cryptoProvider: CryptoProvider): VerificationKey {
  const opened = new Map<JwsAlgorithm, PublicKey>();
  const open = async (algorithm: JwsAlgorithm): Promise<PublicKey> => {
    const known = opened.get(algorithm);
    if (known) return known;
    const publicKey = await cryptoProvider.importPublicKey(key.jwk, jwsSchemes[algorithm]);
    opened.set(algorithm, publicKey);
    return publicKey;
  };
  return { ...key, opened, open };
}
