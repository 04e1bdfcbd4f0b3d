import { readFileSync } from "node:fs";
import { parse as parseToml, TomlDate } from "smol-toml";
import { expect } from "vitest";
import { parseAllDocuments } from "yaml";

/** The text of a file of this repository. */
export const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

export interface Manifest {
  readonly kind: string;
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: { readonly template?: { readonly spec: PodSpec } };
}

interface PodSpec {
  readonly automountServiceAccountToken: boolean;
  readonly securityContext: object;
  readonly containers: readonly {
    readonly args: readonly string[];
    readonly securityContext: object;
  }[];
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
