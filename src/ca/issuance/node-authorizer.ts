import type { NodeAuthorizer } from "../../authn/trusted-issuer.ts";
import { CaError, type ImpersonationRule } from "../../foundation/errors.ts";
import type { Pods } from "../../kubernetes/pods.ts";
import { parseServiceAccount } from "../../pki/spiffe-id.ts";

/** Denies the identity that a caller names. The rule is for the log. */
export function deny(rule: ImpersonationRule): CaError {
  return new CaError(
    { reason: "impersonation-denied", rule },
    `the caller may not have the identity it names: ${rule}`,
  );
}

/**
 * Applies the rules of Istio's `ClusterNodeAuthorizer` (security/pkg/server/ca/node_auth.go). The proxy's
 * pod must exist by name, UID and account. A pod of the requested account must run, or be about to run, on
 * the same node.
 */
export function createPodAuthorizer(pods: Pods): NodeAuthorizer {
  return async ({ account, pod: bound, node }, requested, now) => {
    // The name becomes part of a path.
    if (!bound || !parseServiceAccount(account.namespace, bound.name)) throw deny("pod");
    const pod = await pods.find(account.namespace, bound, now);
    if (!pod) throw deny("pod");
    if (pod.uid !== bound.uid) throw deny("pod-uid");
    if (pod.account !== account.name) throw deny("pod-account");
    // A node's name has the form of an account's. It becomes part of a selector.
    if (!parseServiceAccount(account.namespace, pod.node)) throw deny("node");
    if (node && node.name !== pod.node) throw deny("node");
    if (!(await pods.isOn(pod.node, requested, now))) throw deny("instance");
  };
}

/** Nodes, and the namespaces for which their proxies may speak. */
export interface NodeReach {
  readonly isNode: (name: string) => boolean;
  readonly isNamespace: (name: string) => boolean;
}

/**
 * Authorizes without access to the cluster, by the pod and the node that Kubernetes binds into a
 * projected token. It cannot know whether a pod of the requested account runs on that node.
 */
export function createClaimedReach(reaches: readonly NodeReach[]): NodeAuthorizer {
  return async ({ pod, node }, { namespace }) => {
    if (!pod) throw deny("pod");
    if (node?.uid === undefined) throw deny("node");
    const { name } = node;
    if (!reaches.some((reach) => reach.isNode(name) && reach.isNamespace(namespace))) {
      throw deny("reach");
    }
  };
}
