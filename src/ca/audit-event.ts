import type { Refusal } from "../foundation/errors.ts";
import type { OperationLog } from "../foundation/event-log.ts";

/**
 * One request for a certificate, whatever became of it: the audit trail. No token, key or CSR.
 *
 * Fields that were not established by the time the request ended are absent.
 */
export interface AuditEvent {
  event: "create-certificate";
  outcome: "issued" | "refused" | "failed";
  /** The reason of the refusal, or `fault`. */
  reason?: Refusal["reason"] | "rpc-malformed" | "fault";
  /** The exact check behind a reason, for credentials and keys. */
  check?: string;
  detail?: string;
  spiffeId?: string;
  cluster?: string;
  issuer?: string;
  /** The caller's own SPIFFE ID, when it asked for another one. */
  impersonator?: string;
  /** The gateway that has verified the caller's certificate. */
  gateway?: string;
  /** The named signer that was asked for, and may be used. */
  signer?: string;
  /** The names of a serving certificate. */
  dnsNames?: readonly string[];
  authority?: string;
  serialNumber?: string;
  notAfter?: Date;
  durationMilliseconds?: number;
}

/** Where events go, one structured line each. Must not throw. */
export interface EventLog extends OperationLog {
  readonly audit: (event: AuditEvent) => void;
}
