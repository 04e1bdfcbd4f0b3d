import type { Caller } from "../authn/caller.ts";
import type { TrustedIssuer } from "../authn/trusted-issuer.ts";
import { CaError, type Refusal } from "../errors.ts";
import {
  parseWorkloadSpiffeId,
  type SpiffeId,
  type TrustDomain,
  workloadSpiffeId,
} from "../pki/spiffe-id.ts";

/**
 * The identity that a caller gets for what it asked for.
 *
 * @param requested `ImpersonatedIdentity` of the request; empty for the caller's own.
 * @throws CaError `impersonation-denied`.
 */
export type IdentityPolicy = (caller: Caller, requested: string) => SpiffeId;

type ImpersonationRule = Extract<Refusal, { reason: "impersonation-denied" }>["rule"];

/**
 * Istio's rule: a caller gets its own identity, and an account that its issuer trusts as a node
 * proxy gets the identity it names. Unlike istiod's, that identity must be of this trust domain and of a
 * namespace that the issuer may vouch for. Not asked is whether such a pod runs on the caller's
 * node: that takes the cluster's API.
 */
export function createIdentityPolicy(
  trustDomain: TrustDomain,
  issuers: readonly TrustedIssuer[],
): IdentityPolicy {
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  return (caller, requested) => {
    if (requested === "") return caller.spiffeId;
    const issuer = byName.get(caller.issuer ?? "");
    if (!issuer?.isNodeAccount(caller.account)) throw deny("account");
    const workload = parseWorkloadSpiffeId(requested);
    if (!workload) throw deny("identity");
    if (workload.trustDomain !== trustDomain) throw deny("trust-domain");
    if (!issuer.mayVouchFor(workload.account)) throw deny("namespace");
    return workloadSpiffeId(trustDomain, workload.account);
  };
}

function deny(rule: ImpersonationRule): CaError {
  return new CaError(
    { reason: "impersonation-denied", rule },
    `the caller may not have the identity it names: ${rule}`,
  );
}
