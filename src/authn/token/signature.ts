import type { PublicKey } from "../../pki/crypto-provider.ts";
import { rejectCredential } from "../credential-rejection.ts";
import type { IssuerKeys } from "./issuer-keys.ts";
import type { JsonWebSignature } from "./json-web-signature.ts";
import type { JwsAlgorithm } from "./jws-algorithm.ts";
import type { VerificationKey } from "./verification-key.ts";

/**
 * Requires that a key of the issuer signed the token.
 *
 * @throws CaError `credential-rejected` (`key`, `signature`), `key-provider-unreachable`.
 */
export async function requireSignature(
  jws: JsonWebSignature,
  keys: IssuerKeys,
  now: Date,
): Promise<void> {
  const known = keys(jws, now);
  const candidates = known instanceof Promise ? await known : known;
  // Every candidate allows the algorithm, so it is one of those that tokens may use.
  const algorithm = jws.algorithm as JwsAlgorithm;
  if (candidates.length === 0) {
    throw rejectCredential("key", "no key of the issuer fits the token's algorithm and key id");
  }
  let hasOpened = false;
  for (const key of candidates) {
    const opened = key.opened.get(algorithm) ?? (await open(key, algorithm));
    if (await opened?.verify(jws.signature, jws.signedBytes)) return;
    hasOpened ||= opened !== undefined;
  }
  if (!hasOpened) throw rejectCredential("key", "the issuer's key cannot be imported");
  throw rejectCredential("signature", "the token's signature is wrong");
}

/** A key that cannot be imported has signed nothing, but the other candidates may have. */
async function open(key: VerificationKey, algorithm: JwsAlgorithm): Promise<PublicKey | undefined> {
  try {
    return await key.open(algorithm);
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
}
