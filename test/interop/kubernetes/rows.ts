import type { Row } from "../outcome-table.ts";

/** The rows whose names have this part. */
export const namedRows = <S>(rows: readonly Row<S>[], part: string): readonly Row<S>[] =>
  rows.filter(([name]) => name.includes(part));
