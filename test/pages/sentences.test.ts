import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { longestSentence, longSentencesOf } from "./sentences.ts";

const pages = globSync(["README.md", "docs/**/*.md"], {
  cwd: fileURLToPath(new URL("../..", import.meta.url)),
});

test.each(pages)(`%s has no sentence of more than ${longestSentence} words`, (page) => {
  expect(longSentencesOf(page)).toEqual([]);
});

/** Pages that a program writes. */
const generated = ["cli", "metric-names", "outages", "peers", "storm"].map(
  (name) => `docs/reference/${name}.md`,
);

test("the docs have fewer than 45,000 words, those that a program writes aside", () => {
  const written = pages.filter((page) => page !== "README.md" && !generated.includes(page));
  const words = written.flatMap((page) =>
    // The bars of a table are none.
    readFileSync(new URL(`../../${page}`, import.meta.url), "utf8").match(/\S*[\p{L}\p{N}]\S*/gu),
  );
  expect(words.length).toBeLessThan(45_000);
});
