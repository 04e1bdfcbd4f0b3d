import type { BoundNode, BoundObject } from "../kubernetes/pods.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";

/** A ServiceAccount, with the pod and the node that its token is bound to. */
export interface BoundAccount {
  readonly account: ServiceAccount;
  /** Kubernetes binds projected tokens to a pod and a node, and other tokens to neither. */
  readonly pod?: BoundObject | undefined;
  readonly node?: BoundNode | undefined;
  /** The `jti` of the token, which the API server's audit log names as well. */
  readonly tokenId?: string | undefined;
}
