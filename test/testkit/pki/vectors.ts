import { readFileSync } from "node:fs";

/** The rows of `test/vectors/<name>.json`, in the form that the caller says they have. */
export function readVectors<Row>(name: string): readonly Row[] {
  const url = new URL(`../../vectors/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8")) as Row[];
}
