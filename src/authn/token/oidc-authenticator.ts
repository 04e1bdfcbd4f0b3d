import { cryptography } from "../../pki/cryptography.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { Authenticator } from "../authenticator.ts";
import { rejectCredential } from "../credential-rejection.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";
import { parseBearerToken } from "./bearer-token.ts";
import { requireIssuer } from "./claimed-cluster.ts";
import { type JsonWebSignature, parseJsonWebSignature } from "./json-web-signature.ts";
import { type JwsAlgorithm, verifyParameters } from "./jws-algorithm.ts";
import type { VerificationKey } from "./key-set.ts";
import { parseServiceAccountClaims } from "./service-account-token.ts";
import { callerWithin } from "./token-caller.ts";

/**
 * Istio's out-of-cluster `jwtAuthenticator`, for several issuers: ServiceAccount tokens, verified
 * with the keys that their cluster publishes. No call to the cluster, no TokenReview: a token is
 * good until it expires, even if its pod is gone.
 */
export function createOidcAuthenticator(
  trustDomain: TrustDomain,
  issuers: readonly TrustedIssuer[],
): Authenticator {
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  return async ({ headers }, now) => {
    const jws = parseJsonWebSignature(parseBearerToken(headers.get("authorization")));
    const issuer = requireIssuer(jws, byName);
    await requireSignature(jws, issuer, now);
    const bearer = parseServiceAccountClaims(jws.claims, issuer, now);
    return callerWithin(issuer, bearer, headers.get("clusterid"), trustDomain);
  };
}

async function requireSignature(
  jws: JsonWebSignature,
  issuer: TrustedIssuer,
  now: Date,
): Promise<void> {
  const known = issuer.keys(jws, now);
  const candidates = known instanceof Promise ? await known : known;
  // A candidate is a key that allows it, so it is one of the algorithms on the list.
  const algorithm = jws.algorithm as JwsAlgorithm;
  if (candidates.length === 0) {
    throw rejectCredential("key", "no key of the issuer fits the token's algorithm and key id");
  }
  let hasOpened = false;
  for (const key of candidates) {
    const opened = key.opened.get(algorithm) ?? (await open(key, algorithm));
    const parameters = verifyParameters[algorithm];
    const { signature, signedBytes } = jws;
    if (opened && (await cryptography.verify(parameters, opened, signature, signedBytes))) return;
    hasOpened ||= opened !== undefined;
  }
  if (!hasOpened) throw rejectCredential("key", "the issuer's key cannot be imported");
  throw rejectCredential("signature", "the token's signature is wrong");
}

/** A published key that is none has signed nothing; the keys beside it may have. */
async function open(key: VerificationKey, algorithm: JwsAlgorithm): Promise<CryptoKey | undefined> {
  try {
    return await key.open(algorithm);
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
}
