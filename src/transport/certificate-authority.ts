import type { Authenticator } from "../authn/caller.ts";
import type { EventLog } from "../ca/issuance/event-log.ts";
import type { Issuance } from "../ca/issuance/issue-certificate.ts";
import type { CrlSource } from "../ca/revocation/published-crls.ts";
import type { PublishedLog } from "./http/log-routes.ts";
import type { LongPollLimits } from "./http/long-poll.ts";

/** The use cases behind the wire, ready to run. Every platform serves these. */
export interface CertificateAuthority {
  readonly authenticate: Authenticator;
  readonly issuance: Issuance;
  readonly log: EventLog;
  /** The clock of the platform. */
  readonly clock: () => Date;
  /** How often a client should ask for the trust bundle, in seconds. */
  readonly refreshHintSeconds: number;
  /** How long a cache may keep an answer with the trust bundle, in seconds. */
  readonly bundleMaximumAgeSeconds: number;
  readonly longPollLimits: LongPollLimits;
  /** Absent where CRLs are switched off. */
  readonly crls?: CrlSource | undefined;
  /** Absent where nothing is logged. */
  readonly publishedLog?: PublishedLog | undefined;
}
