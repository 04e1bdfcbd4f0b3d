import type { Screen } from "./terminal.ts";
import { columnsOf, wrap } from "./text.ts";

type Column = ReturnType<typeof columnOf>;

/**
 * Formats a table. If lines would be wider than the screen, columns leave the table: each row has their values on lines
 * below it, so that no value is cut off.
 * @param below The headings of the columns that leave first, in this order.
 */
export function formatTable(
  screen: Screen,
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  below: readonly string[] = [],
): string {
  const { width } = screen;
  const columns = headings.map((heading, i) =>
    columnOf(
      heading,
      rows.map((row) => row[i] ?? ""),
    ),
  );
  const line = fitting(columns, below, width);
  const others = columns.filter((column) => !line.includes(column));
  const titles = joined(line, ({ heading }) => screen.styled("heading", heading));
  const body = rows.flatMap((_, i) => [
    ...wrap(
      joined(line, ({ cells }) => cells[i] ?? ""),
      width,
      "  ",
    ),
    ...details(others, i, screen),
  ]);
  return [titles, ...body].join("\n");
}

const columnOf = (heading: string, cells: readonly string[]) => ({
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

/** Whether a cell has no value, which some tables show as a dash. */
const isNothing = (cell: string): boolean => cell === "" || cell === "-";

const isEmpty = ({ cells }: Column): boolean => cells.every(isNothing);

function joined(columns: readonly Column[], cellOf: (column: Column) => string): string {
  const cells = columns.map((column) => {
    const cell = cellOf(column);
    return cell + " ".repeat(column.width - columnsOf(cell));
  });
  return cells.join(gap).trimEnd();
}

/** Formats the values of a row that do not fit into its line, on further lines, each filled up to the width. */
function details(
  columns: readonly Column[],
  row: number,
  { width, styled }: Screen,
): readonly string[] {
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
