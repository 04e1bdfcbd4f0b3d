/** A table of columns under their headings, each as wide as its longest cell. */
export function formatTable(headings: readonly string[], rows: readonly string[][]): string {
  const widths = headings.map((heading, i) =>
    Math.max(heading.length, ...rows.map((row) => row[i]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd();
  return [headings, ...rows].map(line).join("\n");
}

/** An instant to the minute, in UTC. */
export function formatInstant(instant: Date): string {
  return `${instant.toISOString().slice(0, 16).replace("T", " ")}Z`;
}
