import { formatTable } from "../../terminal/table.ts";
import type { Meaning, Screen } from "../../terminal/terminal.ts";
import { type PlayedRow, type Verdict, worstVerdict } from "./row.ts";

/** The report of an acceptance: the CA, and what each row has measured. */
export interface Report {
  readonly url: string;
  readonly platform: string;
  /** The SPIFFE ID of the certificates; `undefined` if none was issued. */
  readonly identity: string | undefined;
  readonly at: Date;
  readonly program: string;
  readonly worst: Verdict;
  readonly rows: readonly PlayedRow[];
  /** How long calls for certificates took, in milliseconds, by protocol. */
  readonly latencies: Readonly<Record<string, readonly number[]>>;
}

/** The style of each verdict. */
const meanings: Readonly<Record<Verdict, Meaning>> = {
  good: "good",
  skipped: "quiet",
  attention: "warning",
  broken: "bad",
};

/**
 * Formats a report as a table; below it, each row with `attention` or `broken`, with its reason and the page that
 * helps.
 */
export function formatReport(screen: Screen, { rows, url, identity }: Report): string {
  const table = formatTable(
    screen,
    ["ROW", "VERDICT", "MEASURED"],
    rows.map(({ name, verdict, measured }) => [
      name,
      screen.styled(meanings[verdict], verdict),
      measured,
    ]),
  );
  const wrong = rows.filter(({ verdict }) => verdict === "attention" || verdict === "broken");
  const notes = wrong.flatMap(({ name, expect, why, page }) => [
    screen.styled("heading", name),
    `  Expected: ${expect}.`,
    `  ${why}`,
    `  → \`${page}\``,
  ]);
  const whose = `${url}${identity === undefined ? "" : ` as ${identity}`}`;
  return [whose, "", table, "", ...notes, summaryOf(rows)].join("\n");
}

/** Says how many rows have each verdict, and what the worst one means. */
export function summaryOf(rows: readonly PlayedRow[]): string {
  const counts = (["broken", "attention", "good", "skipped"] as const).flatMap((verdict) => {
    const count = rows.filter((row) => row.verdict === verdict).length;
    return count === 0 ? [] : [`${count} ${verdict}`];
  });
  return `${counts.join(", ")}: ${judgements[worstVerdict(rows)]}.`;
}

const judgements: Readonly<Record<Verdict, string>> = {
  good: "this deployment is sound from here",
  skipped: "nothing was played",
  attention: "a person has to look",
  broken: "something does not work",
};

/** The value that a share (0 to 1) of sorted values does not exceed; 0 if there is none. */
export const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
