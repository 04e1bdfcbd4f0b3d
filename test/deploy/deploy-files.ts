import { parse as parseToml, TomlDate } from "smol-toml";
import { expect } from "vitest";
import { parseAllDocuments } from "yaml";
import { read } from "../pages/page-files.ts";

export interface Manifest {
  readonly kind: string;
  readonly data?: Readonly<Record<string, string>>;
  readonly rules?: readonly Rule[];
  readonly spec?: object;
}

/** What a role lets somebody do. */
export interface Rule {
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

export const manifestsIn = (path: string): readonly Manifest[] =>
  parseAllDocuments(read(path)).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Manifest;
  });

/** The file in a ConfigMap, as the program would read it. */
export function configurationIn(path: string): Record<string, unknown> {
  const [text = ""] = manifestsIn(path).flatMap(({ data }) => Object.values(data ?? {}));
  const entries = Object.entries(parseToml(text));
  return Object.fromEntries(
    entries.map(([key, value]) => [key, value instanceof TomlDate ? value.toISOString() : value]),
  );
}
