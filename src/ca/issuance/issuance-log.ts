import { CaError, messageOf } from "../../foundation/errors.ts";
import { toBase64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { AuditEvent } from "./audit-event.ts";
import { formatEntry, type LogEntry } from "./log-entry.ts";

/** The place of an entry. */
export interface LogPosition {
  /** The origin of the log. */
  readonly origin: string;
  readonly index: number;
}

/**
 * The log of everything that a CA issues.
 *
 * An append that resolves is durable: the entry is at its index in every checkpoint to come. An append
 * that rejects may be in the log all the same, once or twice, and readers count by serial number.
 */
export interface IssuanceLog {
  readonly mode: LogMode;
  /** @throws CaError `log-unavailable` */
  readonly append: (entry: Bytes, signal: AbortSignal) => Promise<LogPosition>;
  /** Warnings for the operator, one sentence each. */
  readonly troubles: () => readonly string[];
}

/**
 * The treatment of a certificate that cannot be logged. With `required`, nobody gets it. With `best-effort`,
 * its caller gets it, and the audit trail has its entry.
 */
export type LogMode = "required" | "best-effort";

/** The circumstances of a record. */
interface Recording {
  readonly signal: AbortSignal;
  readonly audit: Pick<AuditEvent, "log" | "logIndex" | "logEntry">;
}

/** Records a certificate before its caller gets it. @throws CaError `log-unavailable` */
export async function recordIssuance(
  { mode, append }: IssuanceLog,
  entry: LogEntry,
  { signal, audit }: Recording,
): Promise<void> {
  const octets = formatEntry(entry);
  try {
    const { origin, index } = await append(octets, signal);
    audit.log = origin;
    audit.logIndex = index;
  } catch (error) {
    audit.log = "unlogged";
    if (mode === "required") throw unavailable(error);
    audit.logEntry = toBase64(octets);
  }
}

function unavailable(error: unknown): CaError {
  if (error instanceof CaError) return error;
  const why = messageOf(error);
  return new CaError({ reason: "log-unavailable", why }, `the issuance log: ${why}`, error);
}
