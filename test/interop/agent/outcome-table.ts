/** One thing that was to be shown, and whether it was. */
export interface Outcome {
  readonly client: string;
  readonly server: string;
  readonly what: string;
  /** Empty when it was shown, else what went wrong. */
  readonly fault: string;
  readonly evidence: string;
}

/** Prints client × server × outcome. @returns Whether everything was shown. */
export function printOutcomes(outcomes: readonly Outcome[]): boolean {
  const rows = outcomes.map(({ client, server, what, fault, evidence }) => [
    client,
    server,
    what,
    fault === "" ? `ok: ${evidence}` : `FAILED: ${fault}`,
  ]);
  const table = [["client", "server", "what", "outcome"], ...rows];
  const widths = [0, 1, 2].map((i) => Math.max(...table.map((row) => row[i]?.length ?? 0)));
  for (const row of table) {
    console.log(
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join("  ")
        .trimEnd(),
    );
  }
  return outcomes.every(({ fault }) => fault === "");
}
