import * as z from "zod/mini";
import type { Caller } from "../../authn/caller.ts";
import type { NodeAuthorizer } from "../../authn/token-issuer.ts";
import { CaError } from "../../foundation/errors.ts";
import type { Refusal } from "../../foundation/refusal.ts";
import { objectName, podUid } from "../../kubernetes/names.ts";
import type { BoundAccount, Pods } from "../../kubernetes/pods.ts";
import { ServiceAccount, SpiffeId, type TrustDomain } from "../../pki/spiffe-id.ts";
import type { Product } from "./product.ts";

/**
 * Decides which identity a caller gets.
 *
 * @param requested `ImpersonatedIdentity` of the request; empty for the caller's own identity. Only a caller that may
 *   have other identities may name one, even its own.
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
    if (!issuer || !(signer || issuer.isNodeAccount?.(caller.account))) throw deny("account");
    const workload = SpiffeId.parseWorkload(requested);
    if (!workload) throw deny("identity");
    if (workload.trustDomain !== trustDomain) throw deny("trust-domain");
    if (!issuer.mayVouchFor(workload.account)) throw deny("namespace");
    if (signer) {
      if (!signer.maySignFor(workload.account)) throw deny("reach");
    } else await issuer.requireNode?.(caller, workload.account, now);
    return SpiffeId.ofWorkload(trustDomain, workload.account);
  }
  return (caller, requested, now) =>
    requested === "" ? caller.spiffeId : impersonated(caller, requested, now);
}

/** Whom a signer of a cluster asks for: a pod, or the account that requests a certificate for a service. */
const holderSchema = z.object({
  PodName: z.optional(objectName),
  PodUid: z.optional(podUid),
  NodeName: z.optional(objectName),
  Requester: z.optional(z.string().check(z.maxLength(320))),
  TokenId: z.optional(z.string().check(z.regex(/^[\x21-\x7e]{1,128}$/))),
});

/**
 * Finds whom a certificate is for. If the caller is a signer of its cluster, it is whom the signer names, because the
 * cluster's API server has established that. Otherwise it is the caller itself, and such names are ignored.
 *
 * @returns `undefined` if a signer asks for somebody whom it does not name.
 * @throws CaError `csr-malformed`; `impersonation-denied` for a requester in whose namespace the signer's issuer may not
 *   vouch.
 */
export function holderOf(
  caller: Caller,
  spiffeId: SpiffeId,
  { kind }: Product,
  request: { readonly impersonatedIdentity: string; readonly metadata?: unknown },
): BoundAccount | undefined {
  if (request.impersonatedIdentity === "" && kind !== "serving") return caller;
  const { issuer } = caller;
  if (!issuer?.clusterSigner?.(caller.account)) return caller;
  const parsed = holderSchema.safeParse(request.metadata ?? {});
  if (!parsed.success) throw malformed();
  const { PodName, PodUid, NodeName, Requester, TokenId: tokenId } = parsed.data;
  const pod = PodName && PodUid ? { name: PodName, uid: PodUid } : undefined;
  const node = NodeName ? { name: NodeName } : undefined;
  if (kind !== "serving") {
    const asked = SpiffeId.parseWorkload(spiffeId);
    return asked && pod && node && { account: asked.account, pod, node };
  }
  if (Requester === undefined) return undefined;
  const account = ServiceAccount.parseName(Requester);
  if (!account) throw malformed();
  if (!issuer.mayVouchFor(account)) throw deny("namespace");
  return { account, pod, node, tokenId };
}

function malformed(): CaError {
  return new CaError({ reason: "csr-malformed" }, "a signer names nobody of Kubernetes");
}

/** Denies the identity that a caller names. The rule is for the log. */
function deny(rule: Extract<Refusal, { reason: "impersonation-denied" }>["rule"]): CaError {
  return new CaError(
    { reason: "impersonation-denied", rule },
    `the caller may not have the identity it names: ${rule}`,
  );
}

/** Authorizes node proxies. */
export const NodeReach = {
  /**
   * Applies the rules of Istio's `ClusterNodeAuthorizer` (security/pkg/server/ca/node_auth.go). The proxy's pod must
   * exist by name, UID and account. A pod of the requested account must run, or be about to run, on the same node.
   */
  ofPods(pods: Pods): NodeAuthorizer {
    return async ({ account, pod: bound, node }, requested, now) => {
      // The name is checked, because it becomes part of a path.
      if (!bound || !ServiceAccount.parse(account.namespace, bound.name)) throw deny("pod");
      const pod = await pods.find(account.namespace, bound, now);
      if (!pod) throw deny("pod");
      if (pod.uid !== bound.uid) throw deny("pod-uid");
      if (pod.account !== account.name) throw deny("pod-account");
      // Checked because it becomes part of a selector. A node's name has the form of an account's.
      if (!ServiceAccount.parse(account.namespace, pod.node)) throw deny("node");
      if (node && node.name !== pod.node) throw deny("node");
      if (!(await pods.isOn(pod.node, requested, now))) throw deny("instance");
    };
  },

  /**
   * Authorizes without access to the cluster, by the pod and the node that Kubernetes binds into a
   * projected token. It cannot know whether a pod of the requested account runs on that node.
   */
  ofClaims(reaches: readonly NodeReach[]): NodeAuthorizer {
    return async ({ pod, node }, { namespace }) => {
      if (!pod) throw deny("pod");
      if (node?.uid === undefined) throw deny("node");
      const { name } = node;
      if (!reaches.some((reach) => reach.isNode(name) && reach.isNamespace(namespace))) {
        throw deny("reach");
      }
    };
  },
};

/** Some nodes, and the namespaces for which their proxies may request identities. */
export interface NodeReach {
  readonly isNode: (name: string) => boolean;
  readonly isNamespace: (name: string) => boolean;
}
