import type { Caller } from "../../authn/caller.ts";
import {
  parseWorkloadSpiffeId,
  type SpiffeId,
  type TrustDomain,
  workloadSpiffeId,
} from "../../pki/spiffe-id.ts";
import { deny } from "./node-authorizer.ts";

/**
 * Decides which identity a caller gets.
 *
 * @param requested `ImpersonatedIdentity` of the request; empty for the caller's own.
 * @throws CaError `impersonation-denied`, `cluster-unreachable`, `cluster-busy`.
 */
export type IdentityPolicy = (
  caller: Caller,
  requested: string,
  now: Date,
) => SpiffeId | Promise<SpiffeId>;

/**
 * Follows Istio's rule (security/pkg/server/ca/node_auth.go): a caller gets its own identity. A node
 * proxy gets the identity that it names, if a pod of that account runs on its node. A signer of the cluster gets
 * the identity that it names, because the cluster's API server has established it.
 *
 * Unlike istiod, it requires an identity of this trust domain and of a namespace that the caller's
 * issuer may vouch for. It asks the cluster of that issuer, whatever `clusterid` says.
 */
export function createIdentityPolicy(trustDomain: TrustDomain): IdentityPolicy {
  async function impersonated(caller: Caller, requested: string, now: Date): Promise<SpiffeId> {
    const { issuer } = caller;
    const signer = issuer?.clusterSigner?.(caller.account);
    if (!issuer || !(signer || issuer.isNodeAccount(caller.account))) throw deny("account");
    const workload = parseWorkloadSpiffeId(requested);
    if (!workload) throw deny("identity");
    if (workload.trustDomain !== trustDomain) throw deny("trust-domain");
    if (!issuer.mayVouchFor(workload.account)) throw deny("namespace");
    if (!signer) await issuer.requireNode(caller, workload.account, now);
    else if (!signer.maySignFor(workload.account)) throw deny("reach");
    return workloadSpiffeId(trustDomain, workload.account);
  }
  return (caller, requested, now) =>
    requested === "" ? caller.spiffeId : impersonated(caller, requested, now);
}
