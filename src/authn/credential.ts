import { CaError, type CredentialCheck } from "../foundation/errors.ts";
import type { BoundNode, BoundObject } from "../kubernetes/pods.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";

/** Rejects a credential, naming the check that failed; the caller never learns which. */
export function rejectCredential(check: CredentialCheck, detail: string, cause?: unknown): CaError {
  return new CaError({ reason: "credential-rejected", check }, detail, cause);
}

/** An unverified claim, for the log: cut short, on one line, in quotation marks. */
export function quoted(claim: unknown): string {
  return typeof claim === "string" ? JSON.stringify(claim.slice(0, 80)) : "not a text";
}

/** A ServiceAccount, with the pod and the node that its token is bound to. */
export interface BoundAccount {
  readonly account: ServiceAccount;
  /** Kubernetes binds projected tokens to a pod and a node, and other tokens to neither. */
  readonly pod?: BoundObject | undefined;
  readonly node?: BoundNode | undefined;
  /** The `jti` of the token, which the API server's audit log names as well. */
  readonly tokenId?: string | undefined;
}
