import { shownSerialNumber } from "../../../pki/encoding/serial-number.ts";
import type { RevokedStatus } from "../../../status/distrust.ts";
import type { Screen } from "../../terminal/screen.ts";
import { formatTable } from "../../terminal/table.ts";
import { formatInstant, printable } from "../../terminal/text.ts";
import type { Candidate } from "./candidates.ts";

/** Revoked certificates as a table. */
export function formatRevokedTable(screen: Screen, revoked: readonly RevokedStatus[]): string {
  const rows = revoked.map(({ serial, authority, revokedAt, expiresAt, reason, stated, why }) => [
    serial,
    authority.slice(0, 8),
    formatInstant(revokedAt),
    formatInstant(expiresAt),
    reason,
    stated,
    printable(why ?? ""),
  ]);
  return formatTable(
    screen,
    ["SERIAL", "AUTHORITY", "REVOKED", "EXPIRES", "REASON", "STATED IN", "WHY"],
    rows,
    ["WHY", "STATED IN"],
  );
}

/** The most rows that an operator is shown before the question. */
const maximumRows = 100;

/** Certificates as a table, the newest of many. */
export function formatCandidates(screen: Screen, candidates: readonly Candidate[]): string {
  const shown = candidates.slice(-maximumRows);
  const rows = shown.map(({ serialNumber, name, cluster, node, issuedAt, notAfter, authority }) =>
    [
      shownSerialNumber(serialNumber),
      name,
      cluster,
      node,
      issuedAt && formatInstant(issuedAt),
      formatInstant(notAfter),
      authority.slice(0, 8),
    ].map((cell) => printable(cell || "-")),
  );
  const headings = ["SERIAL", "NAME", "CLUSTER", "NODE", "ISSUED", "EXPIRES", "AUTHORITY"];
  const more = candidates.length - shown.length;
  return `${more > 0 ? `${more} certificates, and these:\n` : ""}${formatTable(screen, headings, rows, ["NAME", "NODE", "CLUSTER"])}`;
}
