/** One measured number. A number with a budget passes or fails. */
export interface Row {
  readonly name: string;
  readonly value: number;
  readonly unit?: string;
  /** The largest value that passes. */
  readonly budget?: number;
}

/**
 * Prints one number a line, those with a budget last.
 *
 * @returns Whether every budget is kept.
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
