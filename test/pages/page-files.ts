import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The folder of this repository. */
export const root: string = join(import.meta.dirname, "../..");

/** The text of a file of this repository. */
export const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** The paths of this repository that fit a pattern. */
export const filesAt = (pattern: string | string[], exclude: string[] = []): string[] =>
  globSync(pattern, { cwd: root, exclude });

/** The cells of a row of a table. */
export const cellsOf = (row: string): string[] =>
  row
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
