import type { BoundNode, BoundObject } from "../kubernetes/pods.ts";
import type { ServiceAccount, SpiffeId } from "../pki/spiffe-id.ts";

/** Who calls, as an authenticator proved it. */
export interface Caller {
  readonly spiffeId: SpiffeId;
  readonly account: ServiceAccount;
  /** The cluster that vouches for the caller: its issuer's, never a header's. Only a token names one. */
  readonly cluster?: string | undefined;
  /** Only a token has one: a certificate is of this CA itself. */
  readonly issuer?: string | undefined;
  /** The gateway that has verified the caller's certificate and forwarded it. */
  readonly gateway?: SpiffeId | undefined;
  /** Absent unless the token is bound to one (Kubernetes binds projected tokens to both). */
  readonly pod?: BoundObject | undefined;
  readonly node?: BoundNode | undefined;
}
