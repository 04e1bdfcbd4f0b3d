/** One measured number; with a budget it may pass or fail. */
export interface Row {
  readonly name: string;
  readonly value: number;
  readonly unit?: string;
  /** The most that it may be. */
  readonly budget?: number;
}

/**
 * Prints the numbers, those with a budget last, one a line.
 *
 * @returns Whether every budget was kept.
 */
export function printRows(rows: readonly Row[]): boolean {
  const judged = rows.filter((row) => row.budget !== undefined);
  for (const row of [...rows.filter(({ budget }) => budget === undefined), ...judged]) {
    console.log(line(row));
  }
  return judged.every(keepsBudget);
}

function line(row: Row): string {
  const value = `${Number(row.value.toFixed(2))} ${row.unit ?? ""}`.trim();
  const verdict = keepsBudget(row) ? "within" : "MISSED";
  const budget = row.budget === undefined ? "" : `   budget ${row.budget}   ${verdict}`;
  return `${row.name.padEnd(52)} ${value.padStart(12)}${budget}`;
}

const keepsBudget = ({ value, budget = Number.POSITIVE_INFINITY }: Row): boolean => value <= budget;
