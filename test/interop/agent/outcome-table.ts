import { report, type Outcome as SharedOutcome } from "../outcomes.ts";

/** One claim, and whether the suite has shown it. */
export interface Outcome {
  readonly client: string;
  readonly server: string;
  readonly what: string;
  readonly result: "ok" | "FAILED" | "NOT RUN";
  /** The observation, or the fault. */
  readonly detail: string;
}

/** Prints client × server × outcome, and reports to the table of all suites. */
export function reportOutcomes(outcomes: readonly Outcome[]): void {
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
  report(
    [...Map.groupBy(outcomes, ({ client, server }) => `${client} ${server}`).values()].flatMap(
      asRow,
    ),
  );
}

/** The results of one client against one server, in the form of the table of all suites. */
function asRow(outcomes: readonly Outcome[]): SharedOutcome[] {
  const [first] = outcomes;
  if (!first) return [];
  const passed = outcomes.filter(({ result }) => result === "ok").length;
  const failed = outcomes.filter(({ result }) => result === "FAILED");
  const faults = failed.map(({ what, detail }) => `${what}: ${detail}`);
  const missing = outcomes.find(({ result }) => result === "NOT RUN")?.detail;
  const { client, server } = first;
  return [{ client, server, passed, faults, ...(missing !== undefined && { missing }) }];
}
