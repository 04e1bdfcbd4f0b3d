import type { TokenSubject } from "../../authn/token-subject.ts";
import type { Refusal } from "../../foundation/refusal.ts";
import type { Circumstances } from "../policy/circumstances.ts";
import type { Effect } from "../policy/policy.ts";

/**
 * One line of the audit trail: a request for a certificate or a token, and its outcome. It contains no token, key or CSR.
 *
 * Fields that were not established by the time the request ended are absent.
 */
export interface AuditEvent {
  event: "create-certificate" | "create-token";
  outcome: "issued" | "refused" | "failed";
  /** The reason of the refusal, or `fault`. A line leaves out `undefined`. */
  reason?: Refusal["reason"] | "rpc-malformed" | "fault" | undefined;
  /** The exact check behind a reason, for credentials and keys. */
  check?: string;
  detail?: string;
  /** The caller's `x-request-id` or trace id, or else a random one. */
  requestId: string;
  /** The trace of the call: of the caller's `traceparent`, or a new one. */
  traceId?: string;
  spanId?: string;
  /** The span of the program that has sent the `traceparent`. */
  parentId?: string;
  /** The IP address of the peer, which may be a gateway. */
  peer?: string;
  /** The IP address of a gateway's client, as the gateway says. */
  forwardedPeer?: string;
  /**
   * How the caller was authenticated: by its token, by its certificate, or by a certificate that a gateway forwards.
   */
  proof?: "token" | "certificate" | "forwarded";
  /** The caller's certificate: its serial number, its authority, and the time and issuer of the last token behind it. */
  callerSerialNumber?: string;
  callerAuthority?: string;
  provedAt?: Date;
  provedBy?: string;
  /** The subject and claims of a token that is not a ServiceAccount's, and the entry of `subjects` that matched. */
  tokenSubject?: TokenSubject;
  spiffeId?: string;
  cluster?: string;
  issuer?: string;
  /** The caller's own SPIFFE ID, if it asked for another one. */
  impersonator?: string;
  /** The gateway that verified the caller's certificate. */
  gateway?: string;
  /** The named signer that the caller asked for and may use. */
  signer?: string;
  /** The hash of the policy that was evaluated, and the name of its rule that decided, if one did. */
  policy?: string;
  rule?: string | undefined;
  effect?: Effect;
  /** The rule in shadow that would have decided, and what it would have changed. */
  shadowRule?: string | undefined;
  shadowEffect?: Effect | undefined;
  /** The circumstances by which the policy was evaluated. */
  asked?: Circumstances;
  /** The DNS names of a serving certificate. */
  dnsNames?: readonly string[];
  /** The audiences of a token. */
  audiences?: readonly string[];
  /** The id of the authority, or of the key of a token. */
  authority?: string;
  /** Of the certificate, in hexadecimal; of a token its `jti`. */
  serialNumber?: string;
  notAfter?: Date;
  /** The origin of the log that has the certificate, or `unlogged`. */
  log?: string;
  logIndex?: number;
  /** The entry of an unlogged certificate in base64, so that it can be logged later. */
  logEntry?: string;
  durationMilliseconds?: number;
}
