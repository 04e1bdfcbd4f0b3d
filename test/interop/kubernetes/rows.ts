import type { Row } from "../outcome-table.ts";

export const namedRows = <S>(rows: readonly Row<S>[], part: string): readonly Row<S>[] =>
  rows.filter(([name]) => name.includes(part));
