import { styled } from "./style.ts";
import { columnsOf, wrap } from "./width.ts";

/** How a table is made to fit. */
export interface TableShape {
  /** The most columns of a line; by default what {@link outputWidth} tells. */
  readonly width?: number;
  /** The headings that leave the line first where it is too long, the first one first. */
  readonly below?: readonly string[];
}

/** The widest line on a terminal that does not tell its width. */
export const usualWidth = 100;

/** A narrower terminal breaks lines by itself. */
const narrowest = 40;

/**
 * The columns that the standard output has room for: those of the terminal, or as many as `COLUMNS` says. A pipe
 * or a file has room for all, so that each row is one line for `grep` and `awk`.
 */
export function outputWidth(
  stream: { readonly isTTY?: boolean; readonly columns?: number } = process.stdout,
  { COLUMNS: wished }: Readonly<Record<string, string | undefined>> = process.env,
): number {
  if (wished !== undefined && /^[1-9]\d{0,4}$/.test(wished)) {
    return Math.max(Number(wished), narrowest);
  }
  if (!stream.isTTY) return Number.POSITIVE_INFINITY;
  return stream.columns ? Math.max(stream.columns, narrowest) : usualWidth;
}

interface Column {
  readonly heading: string;
  readonly cells: readonly string[];
  readonly width: number;
}

/**
 * A table of columns under their headings. Where a line would be too long, columns leave it: each row has
 * their values in a line below, so that no value is cut off.
 */
export function formatTable(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  { width = outputWidth(), below = [] }: TableShape = {},
): string {
  const columns = headings.map((heading, i) =>
    columnOf(
      heading,
      rows.map((row) => row[i] ?? ""),
    ),
  );
  const line = fitting(columns, below, width);
  const others = columns.filter((column) => !line.includes(column));
  const titles = joined(line, ({ heading }) => styled("heading", heading));
  const body = rows.flatMap((_, i) => [
    ...wrap(
      joined(line, ({ cells }) => cells[i] ?? ""),
      width,
      "  ",
    ),
    ...details(others, i, width),
  ]);
  return [titles, ...body].join("\n");
}

const columnOf = (heading: string, cells: readonly string[]): Column => ({
  heading,
  cells,
  width: Math.max(columnsOf(heading), ...cells.map(columnsOf)),
});

const gap = "  ";

/** The columns that stay in the line. The first one always does: it names the row. */
function fitting(
  columns: readonly Column[],
  below: readonly string[],
  width: number,
): readonly Column[] {
  const total = columns.reduce((sum, each) => sum + each.width + gap.length, -gap.length);
  const [, ...movable] = columns;
  if (total <= width || movable.length === 0) return columns;
  const named = below.flatMap((name) => movable.find(({ heading }) => heading === name) ?? []);
  const leaving =
    movable.find(isEmpty) ?? named[0] ?? movable.reduce((a, b) => (b.width >= a.width ? b : a));
  return fitting(
    columns.filter((each) => each !== leaving),
    below,
    width,
  );
}

/** A cell without a value is a dash where an empty one would puzzle. */
const isNothing = (cell: string): boolean => cell === "" || cell === "-";

const isEmpty = ({ cells }: Column): boolean => cells.every(isNothing);

function joined(columns: readonly Column[], cellOf: (column: Column) => string): string {
  const cells = columns.map((column) => {
    const cell = cellOf(column);
    return cell + " ".repeat(column.width - columnsOf(cell));
  });
  return cells.join(gap).trimEnd();
}

/** The values of a row that have no room in its line, as many in a line as fit. */
function details(columns: readonly Column[], row: number, width: number): readonly string[] {
  const items = columns.flatMap(({ heading, cells }) => {
    const cell = cells[row] ?? "";
    return isNothing(cell) ? [] : [[styled("quiet", heading), cell].join(" ").trim()];
  });
  const lines: string[] = [];
  for (const item of items) {
    const longer = `${lines.at(-1)}${gap}${item}`;
    if (lines.length > 0 && columnsOf(longer) <= width) lines.splice(-1, 1, longer);
    else lines.push(`${gap}${item}`);
  }
  return lines.flatMap((line) => wrap(line, width, `${gap}${gap}`));
}

/** An instant to the minute, in UTC. */
export function formatInstant(instant: Date): string {
  return `${instant.toISOString().slice(0, 16).replace("T", " ")}Z`;
}
