import { CaError, type Refusal } from "../../foundation/errors.ts";
import type { BoundNode, BoundObject } from "../../kubernetes/pods.ts";
import type { BoundAccount } from "../bound-account.ts";
import { rejectCredential } from "../credential-rejection.ts";
import type { PresentedToken } from "./presented-token.ts";
import { parseServiceAccountClaims } from "./service-account-claims.ts";
import { requireSignature } from "./signature.ts";
import type { TokenReview } from "./token-review.ts";

/**
 * Proves whose a token is, by its issuer's keys, its cluster's API server, or both, in the order that
 * the issuer is configured with. A rejection by either is final.
 *
 * @throws CaError `credential-rejected`, `key-provider-unreachable`, `cluster-unreachable`, `cluster-busy`.
 */
export function proveToken(token: PresentedToken, now: Date): Promise<BoundAccount> {
  const { review } = token.issuer;
  if (!review) return proveByKeys(token, now);
  switch (review.order) {
    case "after-keys":
      return proveByKeysOrReview(token, review.ask, now);
    case "before-keys":
      return proveByKeysAndReview(token, review.ask, now);
    case "instead-of-keys":
      return proveByReview(token, review.ask, false, now);
  }
}

/** Without a call to the cluster: the token is good until it expires, even if its pod is gone. */
async function proveByKeys({ jws, issuer }: PresentedToken, now: Date): Promise<BoundAccount> {
  await requireSignature(jws, issuer.keys, now);
  return parseServiceAccountClaims(jws.claims, issuer.audiences, now);
}

/** The API server decides if the keys cannot be fetched, or the token's key is not among them. */
async function proveByKeysOrReview(
  token: PresentedToken,
  ask: TokenReview,
  now: Date,
): Promise<BoundAccount> {
  try {
    return await proveByKeys(token, now);
  } catch (error) {
    const refusal = refusalOf(error);
    const isKeyMissing = refusal?.reason === "credential-rejected" && refusal.check === "key";
    if (!isKeyMissing && refusal?.reason !== "key-provider-unreachable") throw error;
    return proveByReview(token, ask, false, now);
  }
}

/**
 * The keys come first, so that forged tokens cannot keep the API server busy. While the keys cannot be
 * fetched, the API server decides alone. While it cannot be reached, the keys decide. A busy API server
 * counts as reached: the caller must try again.
 */
async function proveByKeysAndReview(
  token: PresentedToken,
  ask: TokenReview,
  now: Date,
): Promise<BoundAccount> {
  const verified = await proveByKeysIfFetched(token, now);
  try {
    return await proveByReview(token, ask, verified !== undefined, now);
  } catch (error) {
    if (verified && refusalOf(error)?.reason === "cluster-unreachable") return verified;
    throw error;
  }
}

async function proveByKeysIfFetched(
  token: PresentedToken,
  now: Date,
): Promise<BoundAccount | undefined> {
  try {
    return await proveByKeys(token, now);
  } catch (error) {
    if (refusalOf(error)?.reason === "key-provider-unreachable") return undefined;
    throw error;
  }
}

function refusalOf(error: unknown): Refusal | undefined {
  return error instanceof CaError ? error.refusal : undefined;
}

/** Refuses an expired token, or one for another audience, without a request to the API server. */
async function proveByReview(
  { text, jws, issuer }: PresentedToken,
  ask: TokenReview,
  isVerified: boolean,
  now: Date,
): Promise<BoundAccount> {
  const claimed = parseServiceAccountClaims(jws.claims, issuer.audiences, now);
  const { exp } = jws.claims;
  const expiresAt = new Date(Number(exp) * 1000);
  const reviewed = await ask({ text, expiresAt, isVerified }, now);
  requireAgreement(claimed, reviewed);
  return { ...reviewed, tokenId: claimed.tokenId };
}

/** Requires an answer about the bearer that the token's own claims name. */
function requireAgreement(claimed: BoundAccount, reviewed: BoundAccount): void {
  const { account } = reviewed;
  const isSameAccount =
    account.namespace === claimed.account.namespace && account.name === claimed.account.name;
  if (isSameAccount && agree(claimed.pod, reviewed.pod) && agree(claimed.node, reviewed.node)) {
    return;
  }
  throw rejectCredential("subject", "the API server speaks of another bearer than the token");
}

/** Either of them may leave out an object, or its UID. */
function agree(claimed?: BoundObject | BoundNode, reviewed?: BoundObject | BoundNode): boolean {
  if (!claimed || !reviewed) return true;
  const isSameUid = claimed.uid === reviewed.uid || !claimed.uid || !reviewed.uid;
  return claimed.name === reviewed.name && isSameUid;
}
