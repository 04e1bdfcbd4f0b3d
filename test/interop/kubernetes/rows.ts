import type { Outcome } from "../outcomes.ts";

/** A name, and the work that fails where the row does. */
export type Row<S> = readonly [string, (scene: S) => Promise<void>];

/** The rows whose names have this part. */
export const namedRows = <S>(rows: readonly Row<S>[], part: string): readonly Row<S>[] =>
  rows.filter(([name]) => name.includes(part));

/** Plays one row after the other, and prints how each has ended. */
export async function playRows<S>(
  rows: readonly Row<S>[],
  scene: S,
): Promise<Pick<Outcome, "passed" | "faults">> {
  const faults: string[] = [];
  for (const [name, play] of rows) {
    await play(scene).then(
      () => console.log(`ok      ${name}`),
      (error: unknown) => {
        console.log(`FAILED  ${name}`);
        faults.push(`${name}: ${error instanceof Error ? error.message : error}`);
      },
    );
  }
  return { passed: rows.length - faults.length, faults };
}
