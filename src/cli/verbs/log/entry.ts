import { X509Certificate } from "node:crypto";
import {
  type CertificateEntry,
  LogEntry,
  type TokenEntry,
} from "../../../ca/issuance/log-entry.ts";
import { type Bytes, Hex } from "../../../pki/encoding/bytes.ts";
import { DerError, Tag } from "../../../pki/encoding/der-reader.ts";
import { Pem } from "../../../pki/encoding/pem.ts";
import { SerialNumber } from "../../../pki/encoding/serial-number.ts";
import { SpiffeId } from "../../../pki/spiffe-id.ts";
import { Certificate } from "../../../pki/x509/certificate.ts";
import { uriName } from "../../../pki/x509/certificate-extensions.ts";
import type { Distrust } from "../../../status/distrust.ts";
import { LogError } from "../../../tlog/log-error.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Screen } from "../../terminal/terminal.ts";
import { formatInstant, printable } from "../../terminal/text.ts";

/** The fields of a log entry by which an operator finds it. */
export interface LoggedEntry {
  readonly at: string;
  /** The URI name of the certificate, or its DNS names; the subject of a token. */
  readonly spiffeId: string;
  /** The serial number in the form of {@link SerialNumber.shown}; for a token, its `jti`. */
  readonly serial: string;
  readonly notAfter: string;
  readonly cluster?: string | null | undefined;
  readonly node?: string | null | undefined;
  readonly tokenId?: string | null | undefined;
  readonly impersonator?: string | null | undefined;
  /** Whether it is the certificate of a CA that the mesh trusts, which nobody requested. */
  readonly isAuthority: boolean;
}

/** A row of the index of a copy: an entry with its index and its octets. */
export interface IndexedEntry extends Omit<LoggedEntry, "isAuthority"> {
  readonly idx: number;
  readonly octets: Bytes;
}

/** SQL conditions on columns that have an index, each of which is in the order of time. */
export const indexed = {
  spiffeId: "spiffeId = ?",
  serial: "serial = ?",
  cluster: "cluster = ?",
  node: "node = ?",
  tokenId: "tokenId = ?",
} as const;

/**
 * SQL conditions on fields without an index, for which the entries are scanned, the newest first. Namespace and account
 * are globs.
 */
const scanned = {
  namespace: "spiffeId GLOB 'spiffe://*/ns/' || ? || '/sa/*'",
  account: "spiffeId GLOB 'spiffe://*/ns/*/sa/' || ?",
  pod: "is_of_pod(octets, ?)",
  issuer: "is_of_issuer(octets, ?)",
  subject: "is_of_subject(octets, ?)",
  claim: "has_claim(octets, ?)",
} as const;

const conditions = { ...indexed, ...scanned, since: "at >= ?", until: "at < ?" } as const;

/** The fields of a search; an entry must match all that are given. */
export type SearchFields = { readonly [K in keyof typeof conditions]?: string | undefined };

/** Picks the search fields from options. @returns `undefined` if there is none. */
export function searchFieldsIn(options: SearchFields): SearchFields | undefined {
  const given = givenIn(options).map(([name, , value]) => [name, value]);
  return given.length > 0 ? Object.fromEntries(given) : undefined;
}

const givenIn = (fields: SearchFields): readonly (readonly [string, string, string])[] =>
  (Object.keys(conditions) as (keyof SearchFields)[]).flatMap((name) => {
    const value = fields[name];
    return value === undefined ? [] : [[name, conditions[name], value] as const];
  });

/**
 * Makes the query for the newest entries that match, the newest first. Each index is in the order of time, so that in a
 * log of a million entries an indexed search neither scans nor sorts.
 */
export function searchQuery(fields: SearchFields, limit: number) {
  const given = givenIn(fields);
  const where =
    given.length > 0 ? `WHERE ${given.map(([, condition]) => condition).join(" AND ")}` : "";
  return {
    sql: `SELECT * FROM entry ${where} ORDER BY at DESC, idx DESC LIMIT ?`,
    values: [...given.map(([, , value]) => value), limit],
  };
}

/** The names, the serial number and the end of a certificate or a token. */
type Names = Pick<LoggedEntry, "spiffeId" | "serial" | "notAfter">;

/**
 * Reads the name, the serial number and the end of a certificate (DER). Its signature is not verified.
 * @throws LogError `form` if it cannot be parsed.
 */
export function namesOf({ certificate }: Pick<CertificateEntry, "certificate">): Names {
  return namesOfSvid(certificate) ?? namesByNode(certificate);
}

/**
 * Reads a certificate whose only name is a workload's SPIFFE ID, as nearly every entry has. Node's parser takes five
 * times as long.
 * @returns `undefined` for any other.
 */
function namesOfSvid(der: Bytes): Names | undefined {
  try {
    const { serialNumber, validity, extensions } = Certificate.parse(der).toBeSigned;
    const names = extensions.subjectAltName?.value.fork().enter(Tag.sequence);
    if (!names?.nextIs(uriName)) return undefined;
    const spiffeId = new TextDecoder().decode(names.content(uriName));
    if (!names.isDone || !SpiffeId.parseWorkload(spiffeId)) return undefined;
    const serial = SerialNumber.shown(Hex.format(serialNumber));
    return { spiffeId, serial, notAfter: validity.notAfter.toISOString() };
  } catch (error) {
    if (error instanceof DerError) return undefined;
    throw error;
  }
}

function namesByNode(der: Bytes): Names {
  const certificate = parse(der);
  const names = certificate.subjectAltName ?? "";
  return {
    spiffeId:
      /^URI:([^\s,]+)(?:, DNS:[^\s,]+)*$/.exec(names)?.[1] ?? (names || certificate.subject),
    serial: SerialNumber.shown(certificate.serialNumber),
    notAfter: certificate.validToDate.toISOString(),
  };
}

/**
 * Reads what the log monitor stores of an entry.
 * @throws LogError `form` for a certificate that cannot be parsed.
 */
export function loggedEntry(entry: LogEntry): LoggedEntry {
  return {
    at: entry.at,
    ...(entry.kind === "token" ? tokenNames(entry.token) : namesOf(entry)),
    cluster: entry.cluster,
    node: entry.node?.name,
    tokenId: entry.tokenId,
    impersonator: entry.impersonator,
    isAuthority: entry.proof === "authority",
  };
}

const tokenNames = ({ spiffeId, jti, expiresAt }: TokenEntry["token"]): Names => ({
  spiffeId,
  serial: jti,
  notAfter: expiresAt,
});

function parse(der: Uint8Array): X509Certificate {
  try {
    return new X509Certificate(der);
  } catch (error) {
    throw new LogError("form", "an entry without a certificate", error);
  }
}

/** The revocations and denials of certificates, by the indices of their entries. */
export type Distrusted = ReadonlyMap<number, Distrust>;

/**
 * Formats entries, which are given newest first, as a table with the oldest first. Without `distrusted`, the table has
 * no column of revocations and denials.
 */
export function formatEntries(
  screen: Screen,
  entries: readonly IndexedEntry[],
  distrusted?: Distrusted,
): string {
  const parsed = entries
    .toReversed()
    .map((entry) => ({ entry, said: LogEntry.parse(entry.octets) }));
  const hasTokens = parsed.some(({ said }) => said.kind === "token");
  const rows = parsed.map(({ entry, said }) => {
    const { idx, at, serial, spiffeId, cluster, node } = entry;
    const cells = [String(idx), at, serial, spiffeId, cluster, node, said.pod?.name, said.proof];
    if (hasTokens) cells.push(said.kind === "token" ? said.token.audiences.join(", ") : undefined);
    if (distrusted) cells.push(distrustText(distrusted.get(idx)));
    return cells.map((cell) => printable(cell ?? "-"));
  });
  const headings = ["INDEX", "TIME", "SERIAL", "NAME", "CLUSTER", "NODE", "POD", "PROOF"];
  if (hasTokens) headings.push("TOKEN FOR");
  if (distrusted) headings.push("STATED");
  return formatTable(screen, headings, rows, [
    "NAME",
    "TOKEN FOR",
    "STATED",
    "POD",
    "NODE",
    "CLUSTER",
  ]);
}

function distrustText(distrust: Distrust | undefined): string {
  if (!distrust) return "-";
  const { state, since, detail } = distrust;
  return [state, ...(since ? [formatInstant(since)] : []), detail].join(" ").trim();
}

/** Formats an entry as one line of JSON, with its certificate as PEM if it has one. */
export const entryAsJson = (entry: IndexedEntry, distrusted?: Distrusted): string =>
  JSON.stringify(entryFields(entry, distrusted));

/**
 * The fields of an entry for JSON, with its certificate as PEM if it has one. `distrust` is `null` for an entry that is
 * not in `distrusted`, and `undefined` without `distrusted`.
 */
export function entryFields(entry: IndexedEntry, distrusted?: Distrusted) {
  const { certificate, ...circumstances } = {
    certificate: undefined,
    ...LogEntry.parse(entry.octets),
  };
  const { idx: index, spiffeId, serial, notAfter } = entry;
  const certificatePem = certificate && Pem.format("CERTIFICATE", certificate);
  const distrust = distrusted && (distrusted.get(index) ?? null);
  return { index, spiffeId, serial, notAfter, ...circumstances, distrust, certificatePem };
}

/** Why a serial number cannot be one of this CA's, as a clause; `undefined` if it can. */
export function foreignSerialNumber(text: string): string | undefined {
  if (/^01[0-9a-f]{32}$/.test(SerialNumber.shown(text))) return undefined;
  return "this CA cannot have chosen it: its numbers have 34 hexadecimal digits and begin with 01, or 39 decimal ones";
}
