import type { ServiceAccount, SpiffeId } from "../pki/spiffe-id.ts";

/** An object of Kubernetes that a token is bound to. */
export interface BoundObject {
  readonly name: string;
  readonly uid: string;
}

/** Who calls, as an authenticator proved it. */
export interface Caller {
  readonly spiffeId: SpiffeId;
  readonly account: ServiceAccount;
  /** The cluster that vouches for the caller: its issuer's, never a header's. */
  readonly cluster: string;
  readonly issuer: string;
  /** Absent unless the token is bound to one (Kubernetes binds projected tokens to both). */
  readonly pod?: BoundObject;
  readonly node?: BoundObject;
}
