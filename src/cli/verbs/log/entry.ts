import { X509Certificate } from "node:crypto";
import { type LogEntry, parseEntry } from "../../../ca/issuance/log-entry.ts";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import { toPem } from "../../../pki/encoding/pem.ts";
import { shownSerialNumber } from "../../../pki/encoding/serial-number.ts";
import type { Distrust } from "../../../status/distrust.ts";
import { LogError } from "../../../tlog/log-error.ts";
import type { Screen } from "../../terminal/screen.ts";
import { formatTable } from "../../terminal/table.ts";
import { formatInstant, printable } from "../../terminal/text.ts";

/** The fields of an entry by which an operator finds it. */
export interface LoggedCertificate {
  readonly at: string;
  /** The URI name of the certificate, or its DNS names. */
  readonly spiffeId: string;
  /** As {@link shownSerialNumber} has it. */
  readonly serial: string;
  readonly notAfter: string;
  readonly cluster?: string | null | undefined;
  readonly node?: string | null | undefined;
  readonly tokenId?: string | null | undefined;
  readonly impersonator?: string | null | undefined;
  /** Whether it is a CA which the mesh trusts, and no certificate that somebody asked for. */
  readonly isAuthority: boolean;
}

/** An entry as the index of a copy has it. */
export interface IndexedEntry extends Omit<LoggedCertificate, "isAuthority"> {
  readonly idx: number;
  readonly octets: Bytes;
}

/** Reads the certificate of an entry by Node's own parser. @throws LogError `form` */
export function loggedCertificate(entry: LogEntry): LoggedCertificate {
  const certificate = parse(entry.certificate);
  const names = certificate.subjectAltName ?? "";
  return {
    at: entry.at,
    spiffeId: /^URI:(\S+)$/.exec(names)?.[1] ?? (names || certificate.subject),
    serial: shownSerialNumber(certificate.serialNumber),
    notAfter: certificate.validToDate.toISOString(),
    cluster: entry.cluster,
    node: entry.node?.name,
    tokenId: entry.tokenId,
    impersonator: entry.impersonator,
    isAuthority: entry.proof === "authority",
  };
}

function parse(der: Uint8Array): X509Certificate {
  try {
    return new X509Certificate(der);
  } catch (error) {
    throw new LogError("form", "an entry without a certificate", error);
  }
}

/**
 * A serial number as an operator types it, in hexadecimal. Go and Python print decimal digits. Those of a certificate
 * of this CA are 39 or more, and its 17 octets have fewer hexadecimal ones.
 */
export const typedSerialNumber = (text: string): string =>
  /^\d{39,}$/.test(text) ? BigInt(text).toString(16) : text;

/** What is stated against certificates, by the indices of their entries. */
export type Distrusted = ReadonlyMap<number, Distrust>;

/** Entries as a table, the oldest first. Nothing is said of distrust where nobody has looked. */
export function formatEntries(
  screen: Screen,
  entries: readonly IndexedEntry[],
  distrusted?: Distrusted,
): string {
  const rows = entries.toReversed().map((entry) => {
    const { proof, pod } = parseEntry(entry.octets);
    const { idx, at, serial, spiffeId, cluster, node } = entry;
    const cells = [String(idx), at, serial, spiffeId, cluster, node, pod?.name, proof];
    const told = distrusted ? [...cells, distrustText(distrusted.get(idx))] : cells;
    return told.map((cell) => printable(cell ?? "-"));
  });
  const headings = ["INDEX", "TIME", "SERIAL", "NAME", "CLUSTER", "NODE", "POD", "PROOF"];
  if (distrusted) headings.push("STATED");
  return formatTable(screen, headings, rows, ["NAME", "STATED", "POD", "NODE", "CLUSTER"]);
}

function distrustText(distrust: Distrust | undefined): string {
  if (!distrust) return "-";
  const { state, since, detail } = distrust;
  return [state, ...(since ? [formatInstant(since)] : []), detail].join(" ").trim();
}

/** One entry as JSON, with its certificate as PEM. */
export function entryAsJson(entry: IndexedEntry, distrusted?: Distrusted): string {
  const { certificate, ...circumstances }: LogEntry = parseEntry(entry.octets);
  const { idx: index, spiffeId, serial, notAfter } = entry;
  const certificatePem = toPem("CERTIFICATE", certificate);
  const distrust = distrusted && (distrusted.get(index) ?? null);
  const told = { index, spiffeId, serial, notAfter, ...circumstances, distrust, certificatePem };
  return JSON.stringify(told);
}
