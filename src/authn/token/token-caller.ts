import { type TrustDomain, workloadSpiffeId } from "../../pki/spiffe-id.ts";
import { wholeSeconds } from "../../pki/x509/validity.ts";
import type { BoundAccount } from "../bound-account.ts";
import type { Caller } from "../caller.ts";
import { quoted, rejectCredential } from "../credential-rejection.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";

/**
 * The caller that a token proves, within the namespaces and the cluster that its issuer may vouch for.
 *
 * Only for a proved token: the time that a refusal takes must not tell the sender of a forged one
 * which namespaces an issuer has.
 *
 * @param clusterId The caller's `clusterid`; absent, or empty, for none.
 * @throws CaError `credential-rejected` (`namespace`, `cluster`).
 */
export function callerWithin(
  issuer: TrustedIssuer,
  { account, pod, node, tokenId }: BoundAccount,
  clusterId: string | null,
  { trustDomain, now }: { readonly trustDomain: TrustDomain; readonly now: Date },
): Caller {
  if (!issuer.mayVouchFor(account)) {
    throw rejectCredential("namespace", "the issuer may not vouch for this namespace");
  }
  requireCluster(clusterId, issuer);
  const proof = { provedAt: wholeSeconds(now), issuer: issuer.digest, isImpersonated: false };
  const spiffeId = workloadSpiffeId(trustDomain, account);
  return { spiffeId, account, issuer, pod, node, tokenId, proof };
}

/**
 * The header is a claim and not a choice: it must be absent, or name the cluster of the token's issuer.
 * In istiod it chooses the cluster that judges the token.
 */
function requireCluster(clusterId: string | null, issuer: TrustedIssuer): void {
  const { name, cluster, clusterAliases } = issuer;
  if (!clusterId || clusterId === cluster || clusterAliases.includes(clusterId)) return;
  const claimed = `${quoted(clusterId)}, and ${name} stands for ${cluster}`;
  throw rejectCredential("cluster", `the caller claims the cluster ${claimed}`);
}
