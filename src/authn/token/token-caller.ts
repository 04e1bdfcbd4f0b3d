import { type TrustDomain, workloadSpiffeId } from "../../pki/spiffe-id.ts";
import type { Caller } from "../caller.ts";
import { rejectCredential } from "../credential-rejection.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";
import { requireCluster } from "./claimed-cluster.ts";
import type { ServiceAccountClaims } from "./service-account-token.ts";

/**
 * The caller that a token makes of its bearer, within the walls of its issuer: its namespaces and its
 * cluster.
 *
 * Only for a token that is proved: how soon a forged one is refused must not tell where the walls are.
 *
 * @param clusterId The header's; absent, or empty, for none.
 * @throws CaError `credential-rejected` (`namespace`, `cluster`).
 */
export function callerWithin(
  issuer: TrustedIssuer,
  { account, pod, node }: ServiceAccountClaims,
  clusterId: string | null,
  trustDomain: TrustDomain,
): Caller {
  if (!issuer.mayVouchFor(account)) {
    throw rejectCredential("namespace", "the issuer may not vouch for this namespace");
  }
  requireCluster(clusterId, issuer);
  return {
    spiffeId: workloadSpiffeId(trustDomain, account),
    account,
    cluster: issuer.cluster,
    issuer: issuer.issuer,
    pod,
    node,
  };
}
