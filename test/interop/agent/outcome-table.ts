import { appendFileSync } from "node:fs";

/** One thing that was to be shown, and whether it was. */
export interface Outcome {
  readonly client: string;
  readonly server: string;
  readonly what: string;
  readonly result: "ok" | "FAILED" | "NOT RUN";
  /** What was seen, or what went wrong. */
  readonly detail: string;
}

const { CI, RAMPART_CI, RAMPART_INTEROP_OUTCOMES: sharedFile } = process.env;

/** Whether everything must have run: a laptop may lack other software, a gate may not. */
const isGate = CI === "true" || RAMPART_CI !== undefined;

/**
 * Prints client × server × outcome, and leaves them for the table of all suites, if there is one.
 *
 * @returns Whether everything was shown that can be shown here.
 */
export function reportOutcomes(outcomes: readonly Outcome[]): boolean {
  const rows = outcomes.map(({ client, server, what, result, detail }) => [
    client,
    server,
    what,
    `${result}: ${detail}`,
  ]);
  const table = [["client", "server", "what", "outcome"], ...rows];
  const widths = [0, 1, 2].map((i) => Math.max(...table.map((row) => row[i]?.length ?? 0)));
  for (const row of table) {
    const cells = row.map((cell, i) => cell.padEnd(widths[i] ?? 0));
    console.log(cells.join("  ").trimEnd());
  }
  if (sharedFile !== undefined) appendFileSync(sharedFile, outcomes.map(sharedLine).join(""));
  const isFine = ({ result }: Outcome): boolean =>
    result === "ok" || (result === "NOT RUN" && !isGate);
  return outcomes.length > 0 && outcomes.every(isFine);
}

/** One line of JSON for the table of all suites. */
function sharedLine({ client, server, what, result, detail }: Outcome): string {
  const faults = result === "FAILED" ? [`${what}: ${detail}`] : [];
  const missing = result === "NOT RUN" ? { missing: detail } : {};
  const passed = result === "ok" ? 1 : 0;
  return `${JSON.stringify({ client, server: `${server}: ${what}`, passed, faults, ...missing })}\n`;
}
