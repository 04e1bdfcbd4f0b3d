import { type Outcome, playRows } from "../outcome-table.ts";

/** A name, and the work that fails where the row does. */
export type Row<S> = readonly [string, (scene: S) => Promise<void>];

/** The rows whose names have this part. */
export const namedRows = <S>(rows: readonly Row<S>[], part: string): readonly Row<S>[] =>
  rows.filter(([name]) => name.includes(part));

export const playIn = <S>(
  scene: S,
  names: Pick<Outcome, "client" | "server">,
  rows: readonly Row<S>[],
): Promise<Outcome[]> =>
  playRows(
    names,
    rows.map(([what, play]) => [what, () => play(scene)]),
  );
