import { readdirSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import * as z from "zod";

const mutantForm = z.strictObject({
  /** What a build with this fault would do. */
  meaning: z.string(),
  /** The file of `src` that holds the text. */
  file: z.string(),
  /** Stands exactly once in the file. */
  text: z.string(),
  /** Takes the place of the text. */
  instead: z.string(),
  /** Files or folders of tests that should notice, by a space apart. */
  test: z.string(),
  project: z.enum(["node", "workerd"]).default("node"),
});

/** A fault that somebody plants on purpose in one place of `src`. */
export type Mutant = z.output<typeof mutantForm>;

/** The planted faults of a list: those of `<name>.json` beside this file. */
export function readMutants(name: string): readonly Mutant[] {
  const text = readFileSync(join(import.meta.dirname, `${name}.json`), "utf8");
  return z.array(mutantForm).parse(JSON.parse(text));
}

/** The names of all lists. */
export function mutantLists(): readonly string[] {
  const names = readdirSync(import.meta.dirname).filter((name) => name.endsWith(".json"));
  return names.map((name) => name.slice(0, -".json".length)).toSorted();
}

/**
 * The text of a file with the fault in it.
 *
 * @throws Error unless the mutant's text stands there exactly once.
 * @throws SyntaxError for a fault that is none of the code: every test would notice it.
 */
export function plant(
  { file, text, instead }: Pick<Mutant, "file" | "text" | "instead">,
  whole: string,
): string {
  const parts = whole.split(text);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times: ${text}`);
  const planted = parts.join(instead);
  stripTypeScriptTypes(planted);
  return planted;
}
