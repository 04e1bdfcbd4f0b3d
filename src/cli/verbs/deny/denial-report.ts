import type { Denial } from "../../../ca/denial.ts";
import { formatDenied } from "../../../config/distrust.ts";
import type { DenialContent } from "../../../custody/denial-statement.ts";
import type { Screen } from "../../terminal/screen.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { formatInstant, printable } from "../../terminal/text.ts";

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

export function formatDenials(screen: Screen, reports: readonly DenialReport[]): string {
  const rows = reports.map(({ subject, stated, until, hasEnded, why }) => [
    printable(subject),
    stated,
    until === undefined
      ? "it is removed"
      : `${formatInstant(new Date(until))}${hasEnded ? ", over" : ""}`,
    printable(why ?? ""),
  ]);
  return formatTable(screen, ["SUBJECT", "STATED IN", "UNTIL", "WHY"], rows, ["WHY"]);
}

/** Prints the line of the configuration by which a denial counts even if the store withholds it. */
export function printDenied(
  terminal: Terminal,
  configured: readonly Denial[],
  added: DenialContent,
): void {
  const entries = [...configured, added].map((each) => `  ${formatDenied(each)},`);
  terminal.print(`
Anybody who can write to the store can withhold this denial. To have it count whatever the store says,
put these lines into the configuration: in rampart.toml above all tables, in wrangler.toml under [vars].
DENIED = [
${entries.join("\n")}
]`);
}
