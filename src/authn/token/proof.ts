import { CaError } from "../../foundation/errors.ts";
import type { BoundNode, BoundObject } from "../../kubernetes/pods.ts";
import type { BoundAccount } from "../bound-account.ts";
import { rejectCredential } from "../credential-rejection.ts";
import type { Review } from "../trusted-issuer.ts";
import type { PresentedToken } from "./presented-token.ts";
import { parseServiceAccountClaims } from "./service-account-claims.ts";
import { requireSignature } from "./signature.ts";

/**
 * Proves whose a token is, by its issuer's keys, its cluster's API server, or both, in the order that
 * the issuer is configured with.
 *
 * A no is final: the second is asked only when the first cannot tell.
 *
 * @throws CaError `credential-rejected`, `key-provider-unreachable`, `cluster-unreachable`.
 */
export function proveToken(token: PresentedToken, now: Date): Promise<BoundAccount> {
  const { review } = token.issuer;
  if (!review) return proveByKeys(token, now);
  const byKeys = () => proveByKeys(token, now);
  const byReview = () => proveByReview(token, review, now);
  switch (review.order) {
    case "after-keys":
      return byKeys().catch(ifUndecided(byReview));
    case "before-keys":
      return byReview().catch(ifUndecided(byKeys));
    case "instead-of-keys":
      return byReview();
  }
}

function ifUndecided(other: () => Promise<BoundAccount>) {
  return (error: unknown): Promise<BoundAccount> => {
    if (isUndecided(error)) return other();
    throw error;
  };
}

/** Whoever cannot be reached has not said no, and neither have keys among which the token's is missing. */
function isUndecided(error: unknown): boolean {
  if (!(error instanceof CaError)) return false;
  const { refusal } = error;
  switch (refusal.reason) {
    case "key-provider-unreachable":
    case "cluster-unreachable":
      return true;
    case "credential-rejected":
      return refusal.check === "key";
    default:
      return false;
  }
}

/** Without a call to the cluster: the token is good until it expires, even if its pod is gone. */
async function proveByKeys({ jws, issuer }: PresentedToken, now: Date): Promise<BoundAccount> {
  await requireSignature(jws, issuer.keys, now);
  return parseServiceAccountClaims(jws.claims, issuer.audiences, now);
}

/** An expired token, or one for another audience, costs the API server no question. */
async function proveByReview(
  { text, jws, issuer }: PresentedToken,
  review: Review,
  now: Date,
): Promise<BoundAccount> {
  const claimed = parseServiceAccountClaims(jws.claims, issuer.audiences, now);
  const { exp } = jws.claims;
  const expiresAt = new Date(Number(exp) * 1000);
  const reviewed = await review.ask(text, expiresAt, now);
  requireAgreement(claimed, reviewed);
  return reviewed;
}

/** An answer about another bearer than the token's own claims is no answer. */
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
