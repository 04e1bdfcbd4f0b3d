import type { Authenticator } from "../authn/authenticator.ts";
import type { EventLog } from "../ca/audit-event.ts";
import type { Issuance } from "../ca/issue-certificate.ts";
import type { LongPollLimits } from "./http/long-poll.ts";

/** The use cases that the wire gives access to, ready to run: what every platform serves. */
export interface CertificateAuthority {
  readonly authenticate: Authenticator;
  readonly issuance: Issuance;
  readonly log: EventLog;
  /** The clock of the platform. */
  readonly clock: () => Date;
  /** How often followers of the trust bundle should look, in seconds. */
  readonly refreshHintSeconds: number;
  /** How long an answer with the trust bundle may be kept by caches, in seconds. */
  readonly bundleMaximumAgeSeconds: number;
  readonly longPollLimits: LongPollLimits;
}
