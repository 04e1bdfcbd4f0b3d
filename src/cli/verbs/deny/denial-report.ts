import type { Denial } from "../../../ca/denial.ts";
import { formatDenied } from "../../../config/denied.ts";
import type { DenialContent } from "../../../custody/denial-statement.ts";
import { printable } from "../../terminal/printable.ts";
import { formatInstant, formatTable } from "../../terminal/table.ts";

/** A denial as `deny list` shows it. */
export interface DenialReport {
  readonly subject: string;
  readonly stated: "store" | "configuration";
  readonly until: string | undefined;
  readonly hasEnded: boolean;
  readonly why: string | undefined;
}

export function reportDenials(
  stored: readonly Denial[],
  configured: readonly Denial[],
  now: Date,
): DenialReport[] {
  const report =
    (stated: DenialReport["stated"]) =>
    ({ subject, until, why }: Denial): DenialReport => ({
      subject,
      stated,
      until: until?.toISOString(),
      hasEnded: until !== undefined && until <= now,
      why,
    });
  const reports = [...stored.map(report("store")), ...configured.map(report("configuration"))];
  return reports.toSorted((a, b) => (a.subject < b.subject ? -1 : 1));
}

export function formatDenials(reports: readonly DenialReport[]): string {
  const rows = reports.map(({ subject, stated, until, hasEnded, why }) => [
    printable(subject),
    stated,
    until === undefined
      ? "it is removed"
      : `${formatInstant(new Date(until))}${hasEnded ? ", over" : ""}`,
    printable(why ?? ""),
  ]);
  return formatTable(["SUBJECT", "STATED IN", "UNTIL", "WHY"], rows, { below: ["WHY"] });
}

/** Prints the line of the configuration by which a denial counts even if the store withholds it. */
export function printDenied(configured: readonly Denial[], added: DenialContent): void {
  const entries = [...configured, added].map((each) => `  ${formatDenied(each)},`);
  console.log(`
Anybody who can write to the store can withhold this denial. To have it count whatever the store says,
put these lines into the configuration: in rampart.toml above all tables, in wrangler.toml under [vars].
DENIED = [
${entries.join("\n")}
]`);
}
