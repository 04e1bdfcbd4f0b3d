import type { Caller } from "../authn/caller.ts";
import {
  parseWorkloadSpiffeId,
  type SpiffeId,
  type TrustDomain,
  workloadSpiffeId,
} from "../pki/spiffe-id.ts";
import { deny } from "./node-authorizer.ts";

/**
 * The identity that a caller gets for what it asked for.
 *
 * @param requested `ImpersonatedIdentity` of the request; empty for the caller's own.
 * @throws CaError `impersonation-denied`, `cluster-unreachable`.
 */
export type IdentityPolicy = (
  caller: Caller,
  requested: string,
  now: Date,
) => SpiffeId | Promise<SpiffeId>;

/**
 * Istio's rule: a caller gets its own identity, and an account that its issuer trusts as a node
 * proxy gets the identity it names, if a pod of that account runs on its node. Unlike istiod's, that
 * identity must be of this trust domain and of a namespace that the issuer may vouch for, and the
 * cluster that is asked is the caller's by its token, whatever the header says.
 */
export function createIdentityPolicy(trustDomain: TrustDomain): IdentityPolicy {
  async function impersonated(caller: Caller, requested: string, now: Date): Promise<SpiffeId> {
    const { issuer } = caller;
    if (!issuer?.isNodeAccount(caller.account)) throw deny("account");
    const workload = parseWorkloadSpiffeId(requested);
    if (!workload) throw deny("identity");
    if (workload.trustDomain !== trustDomain) throw deny("trust-domain");
    if (!issuer.mayVouchFor(workload.account)) throw deny("namespace");
    await issuer.requireNode(caller, workload.account, now);
    return workloadSpiffeId(trustDomain, workload.account);
  }
  return (caller, requested, now) =>
    requested === "" ? caller.spiffeId : impersonated(caller, requested, now);
}
