import { CaError } from "../../foundation/errors.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { Authenticator } from "../authenticator.ts";
import type { ReviewOrder, TrustedIssuer } from "../trusted-issuer.ts";
import { parseBearerToken } from "./bearer-token.ts";
import { requireIssuer } from "./claimed-cluster.ts";
import { parseJsonWebSignature } from "./json-web-signature.ts";
import { createKubeJwtAuthenticator } from "./kube-jwt-authenticator.ts";
import { createOidcAuthenticator } from "./oidc-authenticator.ts";

/**
 * Whatever proves a ServiceAccount token of these issuers: keys, or the cluster's API server, in the
 * order that the issuer is configured with.
 *
 * Unlike Istio's, the order is no "first success wins": who knows decides, and a no is a no. The other one
 * is asked only when the first cannot say.
 */
export function createTokenAuthenticator(
  trustDomain: TrustDomain,
  issuers: readonly TrustedIssuer[],
): Authenticator {
  const byKeys = createOidcAuthenticator(trustDomain, issuers);
  if (issuers.every(({ review }) => review === undefined)) return byKeys;
  const byReview = createKubeJwtAuthenticator(trustDomain, issuers);
  const authenticators: Readonly<Record<ReviewOrder, Authenticator>> = {
    "after-keys": unlessUndecided(byKeys, byReview),
    "before-keys": unlessUndecided(byReview, byKeys),
    "instead-of-keys": byReview,
  };
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  return async (credentials, now) => {
    const token = parseBearerToken(credentials.headers.get("authorization"));
    const { review } = requireIssuer(parseJsonWebSignature(token), byName);
    return (review ? authenticators[review.order] : byKeys)(credentials, now);
  };
}

function unlessUndecided(first: Authenticator, second: Authenticator): Authenticator {
  return async (credentials, now) => {
    try {
      return await first(credentials, now);
    } catch (error) {
      if (!isUndecided(error)) throw error;
      return second(credentials, now);
    }
  };
}

/** Who cannot be asked has not said no, and neither has who lacks the key to judge by. */
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
