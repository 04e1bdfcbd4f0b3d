import { expect, test } from "vitest";
import ofTests from "../../dev/node/package.json" with { type: "json" };
import { target } from "../../dev/package/bundle.ts";
import manifest from "../../package.json" with { type: "json" };
import { filesAt, read } from "./page-files.ts";

const least = manifest.engines.node.replace(">=", "");

test("README.md asks for the Node of package.json", () => {
  expect(least).toMatch(/^\d+\.\d+$/);
  const asked = /\[install Node\]\(\S+\) (\S+) or newer/.exec(read("README.md"))?.[1];
  expect(asked).toBe(least);
});

test("no page asks for another Node", () => {
  const pages = filesAt(["README.md", "docs/{tutorials,how-to}/**/*.md"]);
  const asked = pages.flatMap((page) =>
    [...read(page).matchAll(/\bNode (\d[\d.]*\d|\d)/g)].map(([, version]) => ({ page, version })),
  );
  expect(asked.filter(({ version }) => version !== least)).toEqual([]);
});

test("the package is compiled for the Node of package.json, and its types show no module or method of a newer one", () => {
  const [major] = least.split(".");
  expect(target).toBe(`node${major}`);
  expect(manifest.devDependencies["@types/node"].split(".")[0]).toBe(major);
});

test("the Node of the tests is one version on every processor", () => {
  expect(new Set(Object.values(ofTests.optionalDependencies))).toEqual(
    new Set([process.versions.node]),
  );
});
