import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";
import { filesAt, read } from "./page-files.ts";

const files = filesAt("src/**/*.ts", ["src/gen/**", "**/.tsc/**"]);
const texts = new Map(files.map((file) => [file, read(file)]));

/** The files of this repository that a file imports, types included. */
function importsOf(file: string): string[] {
  const imports = (texts.get(file) ?? "").matchAll(/\bfrom "(\.[^"]+)"|\bimport\("(\.[^"]+)"\)/g);
  return [...imports]
    .map(([, from, dynamic]) => normalize(join(dirname(file), from ?? dynamic ?? "")))
    .filter((path) => texts.has(path));
}

/** The files in circles, and between two: all others go in turn, for they import none or none imports them. */
function inCircles(): string[] {
  const imports = new Map(files.map((file) => [file, importsOf(file)]));
  let left = files;
  for (;;) {
    const imported = new Set(left.flatMap((file) => imports.get(file) ?? []));
    const remaining = left
      .filter((file) => imported.has(file))
      .filter((file) => imports.get(file)?.some((path) => left.includes(path)));
    if (remaining.length === left.length) return left;
    left = remaining;
  }
}

test("no files import each other in a circle", () => {
  expect(inCircles()).toEqual([]);
});
