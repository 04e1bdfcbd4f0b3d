import { CaError, messageOf } from "../../foundation/errors.ts";
import { toBase64 } from "../../pki/encoding/base64.ts";
import { type Bytes, toHex } from "../../pki/encoding/bytes.ts";
import { leafHash } from "../../tlog/merkle.ts";
import type { AuthorityView } from "../authority-view.ts";
import type { AuditEvent } from "./audit-event.ts";
import { formatEntry, type LogEntry } from "./log-entry.ts";

/** The place of an entry. */
export interface LogPosition {
  /** The origin of the log. */
  readonly origin: string;
  readonly index: number;
}

/** The entry of a CA certificate. A log has it once, under this name. */
interface LoggedAuthority {
  readonly name: string;
  readonly entry: Bytes;
}

/**
 * The log of everything that a CA issues.
 *
 * An append that resolves is durable: the entry is at its index in every checkpoint to come, behind those
 * of its authorities. An append that rejects may be in the log all the same, once or twice, and readers
 * count by serial number.
 */
export interface IssuanceLog {
  readonly mode: LogMode;
  /** @throws CaError `log-unavailable` */
  readonly append: (
    entry: Bytes,
    signal: AbortSignal,
    authorities?: readonly LoggedAuthority[],
  ) => Promise<LogPosition>;
  /** Asks the log whether it takes entries, where this process knows of its own calls alone. It does not reject. */
  readonly look?: (now: Date) => Promise<void>;
  /** Why it takes no entry, as far as this process knows: the last one was refused. */
  readonly refusal: () => string | undefined;
  /** Warnings for the operator, one sentence each, a refusal among them. */
  readonly troubles: () => readonly string[];
}

/**
 * The treatment of a certificate that cannot be logged. With `required`, nobody gets it. With `best-effort`,
 * its caller gets it, and the audit trail has its entry.
 */
export type LogMode = "required" | "best-effort";

/** The circumstances of a record. */
interface Recording {
  /** The view whose authority has signed. */
  readonly view: AuthorityView;
  readonly signal: AbortSignal;
  readonly audit: Pick<AuditEvent, "log" | "logIndex" | "logEntry">;
}

/** Records a certificate or a token before its caller gets it. @throws CaError `log-unavailable` */
export async function recordIssuance(
  { mode, append }: IssuanceLog,
  entry: LogEntry,
  { view, signal, audit }: Recording,
): Promise<void> {
  const octets = formatEntry(entry);
  try {
    const { origin, index } = await append(octets, signal, authoritiesOf(view, entry.at));
    audit.log = origin;
    audit.logIndex = index;
  } catch (error) {
    audit.log = "unlogged";
    if (mode === "required") throw toLogUnavailable(error);
    audit.logEntry = toBase64(octets);
  }
}

const authoritiesOfViews = new WeakMap<AuthorityView, readonly LoggedAuthority[]>();

/**
 * The entries of every CA certificate that the mesh trusts or that signs. One that nobody has minted shows in
 * the log, even if no leaf of it does.
 */
function authoritiesOf(view: AuthorityView, at: string): readonly LoggedAuthority[] {
  const known = authoritiesOfViews.get(view);
  if (known) return known;
  const { trustBundle, issuer } = view;
  const certificates = [...trustBundle.roots, ...(issuer?.authority.intermediates ?? [])];
  const entries = certificates.map((certificate) => ({
    name: toHex(leafHash(certificate)),
    entry: formatEntry({ kind: "certificate", certificate, at, proof: "authority" }),
  }));
  authoritiesOfViews.set(view, entries);
  return entries;
}

/** The refusal of a certificate whose entry a log did not take, and why. */
export const logUnavailable = (why: string, cause?: unknown): CaError =>
  new CaError({ reason: "log-unavailable", why }, `the issuance log: ${why}`, cause);

/** Any failure of a log as {@link logUnavailable}. */
export function toLogUnavailable(error: unknown): CaError {
  return error instanceof CaError ? error : logUnavailable(messageOf(error), error);
}
