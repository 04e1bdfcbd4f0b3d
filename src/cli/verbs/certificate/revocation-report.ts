import type { RevocationContent } from "../../../custody/revocation-statement.ts";
import { shownSerialNumber } from "../../../pki/encoding/serial-number.ts";
import type { RevocationReason } from "../../../pki/x509/crl/crl-to-be-signed.ts";
import type { Screen } from "../../terminal/screen.ts";
import { formatTable } from "../../terminal/table.ts";
import { formatInstant, printable } from "../../terminal/text.ts";
import type { Candidate } from "./candidate.ts";

/** A revoked certificate as `certificate revoked` shows it. */
export interface RevokedReport {
  readonly serial: string;
  readonly authority: string;
  readonly revokedAt: string;
  readonly expiresAt: string;
  readonly reason: RevocationReason;
  readonly stated: "store" | "configuration";
  readonly why: string | undefined;
}

export function reportRevoked(
  stored: readonly RevocationContent[],
  configured: readonly RevocationContent[],
): RevokedReport[] {
  const report =
    (stated: RevokedReport["stated"]) =>
    ({ certificates, authority, revokedAt, reason, why }: RevocationContent): RevokedReport[] =>
      [...certificates].map(([serial, end]) => ({
        serial: shownSerialNumber(serial),
        authority,
        revokedAt: revokedAt.toISOString(),
        expiresAt: new Date(1000 * end).toISOString(),
        reason,
        stated,
        why,
      }));
  const all = [...stored.flatMap(report("store")), ...configured.flatMap(report("configuration"))];
  return all.toSorted((a, b) => (a.revokedAt < b.revokedAt ? -1 : 1));
}

export function formatRevokedTable(screen: Screen, reports: readonly RevokedReport[]): string {
  const rows = reports.map(({ serial, authority, revokedAt, expiresAt, reason, stated, why }) => [
    serial,
    authority.slice(0, 8),
    formatInstant(new Date(revokedAt)),
    formatInstant(new Date(expiresAt)),
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
