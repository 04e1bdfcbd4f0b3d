import type { BoundNode, BoundObject } from "../../kubernetes/pods.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { Authenticator } from "../authenticator.ts";
import { rejectCredential } from "../credential-rejection.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";
import { parseBearerToken } from "./bearer-token.ts";
import { requireIssuer } from "./claimed-cluster.ts";
import { parseJsonWebSignature } from "./json-web-signature.ts";
import { parseServiceAccountClaims, type ServiceAccountClaims } from "./service-account-token.ts";
import { callerWithin } from "./token-caller.ts";
import type { ReviewedAccount } from "./token-review.ts";

/**
 * Istio's `KubeJWTAuthenticator`: a ServiceAccount token, judged by the API server of its cluster.
 *
 * Only the cluster that the token itself names is asked, where istiod asks the one that the caller
 * names: no API server gets to see another cluster's token. What is old or not meant for us is nobody's
 * trouble; what the claims say of the bearer is held against the answer.
 */
export function createKubeJwtAuthenticator(
  trustDomain: TrustDomain,
  issuers: readonly TrustedIssuer[],
): Authenticator {
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  return async ({ headers }, now) => {
    const token = parseBearerToken(headers.get("authorization"));
    const jws = parseJsonWebSignature(token);
    const issuer = requireIssuer(jws, byName);
    const { review } = issuer;
    if (!review) throw rejectCredential("issuer", "no access to the API server of the cluster");
    const claimed = parseServiceAccountClaims(jws.claims, issuer, now);
    const { exp } = jws.claims;
    const reviewed = await review.ask(token, new Date(Number(exp) * 1000), now);
    requireAgreement(claimed, reviewed);
    return callerWithin(issuer, reviewed, headers.get("clusterid"), trustDomain);
  };
}

/** An answer about somebody else than the token's bearer is no answer. */
function requireAgreement(claimed: ServiceAccountClaims, reviewed: ReviewedAccount): void {
  const { account } = reviewed;
  const isSameAccount =
    account.namespace === claimed.account.namespace && account.name === claimed.account.name;
  if (isSameAccount && agree(claimed.pod, reviewed.pod) && agree(claimed.node, reviewed.node)) {
    return;
  }
  throw rejectCredential("subject", "the API server speaks of another bearer than the token");
}

/** What one of them does not say, the other may. */
function agree(claimed?: BoundObject | BoundNode, reviewed?: BoundObject | BoundNode): boolean {
  if (!claimed || !reviewed) return true;
  const isSameUid = claimed.uid === reviewed.uid || !claimed.uid || !reviewed.uid;
  return claimed.name === reviewed.name && isSameUid;
}
