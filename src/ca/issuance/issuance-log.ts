import type { Caller } from "../../authn/caller.ts";
import { CaError, messageOf } from "../../foundation/errors.ts";
import type { BoundAccount } from "../../kubernetes/pods.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { AuthorityView } from "../authority-view.ts";
import type { AuditEvent } from "./audit-event.ts";
import type { Evidence, TokenEntry } from "./log-entry.ts";

/** The log that has an entry, and the index of the entry in it. */
export interface LogPosition {
  /** The origin of the log. */
  readonly origin: string;
  readonly index: number;
}

/** The entry of a CA certificate. A log contains only one entry of this name. */
export interface LoggedAuthority {
  readonly name: string;
  readonly entry: Bytes;
}

/**
 * A log to which entries are appended.
 *
 * An append that resolves is durable: the entry is at its index in every later checkpoint, after the entries of its
 * authorities. An append that rejects may be in the log nevertheless, once or twice; readers count by serial number.
 */
export interface AppendOnlyLog {
  readonly mode: LogMode;
  /** @throws CaError `log-unavailable` */
  readonly append: (
    entry: Bytes,
    signal: AbortSignal,
    authorities?: readonly LoggedAuthority[],
  ) => Promise<LogPosition>;
  /** Asks the log whether it takes entries. Absent if this process knows that without asking. It does not reject. */
  readonly look?: (now: Date) => Promise<void>;
  /** Why the log refused the last entry, as far as this process knows; `undefined` if it did not. */
  readonly refusal: () => string | undefined;
  /** Warnings for the operator, one sentence each, a refusal among them. */
  readonly troubles: () => readonly string[];
}

/** The log of everything that a CA issues. */
export interface IssuanceLog extends AppendOnlyLog {
  /** Records a certificate or a token before its caller gets it. @throws CaError `log-unavailable` */
  readonly record: (issued: Issued, recording: Recording) => Promise<void>;
}

/**
 * The treatment of a certificate that cannot be logged. With `required`, nobody gets it. With `best-effort`,
 * its caller gets it, and the audit trail has its entry.
 */
export type LogMode = "required" | "best-effort";

/** The view and the signal of a recording, and the audit event that gets the position of the entry. */
export interface Recording {
  /** The view whose authority has signed. */
  readonly view: AuthorityView;
  readonly signal: AbortSignal;
  readonly audit: Pick<AuditEvent, "log" | "logIndex" | "logEntry">;
}

/** Makes the errors of a log. */
export const IssuanceLog = {
  /** The refusal of a certificate whose entry a log did not take, and why. */
  unavailable: (why: string, cause?: unknown): CaError =>
    new CaError({ reason: "log-unavailable", why }, `the issuance log: ${why}`, cause),

  /** Converts any failure of a log to {@link IssuanceLog.unavailable}. A CaError stays as it is. */
  toUnavailable(error: unknown): CaError {
    return error instanceof CaError ? error : IssuanceLog.unavailable(messageOf(error), error);
  },
};

/** What a CA has issued: to a caller, or a certificate to itself. */
export type Issued =
  | (IssuedToCaller & { readonly certificate: Bytes })
  | (IssuedToCaller & { readonly token: TokenEntry["token"] })
  | { readonly at: Date; readonly certificate: Bytes };

/** The circumstances in which something was issued to a caller. */
export interface IssuedToCaller {
  readonly caller: Caller;
  readonly at: Date;
  /** The issued identity: the caller's own, or the one that a node proxy requested. */
  readonly spiffeId: SpiffeId;
  readonly signer?: string | undefined;
  /** Whom the certificate is for; by default the bearer of the caller's own token. */
  readonly holder?: BoundAccount | undefined;
  readonly evidence?: Evidence;
}
