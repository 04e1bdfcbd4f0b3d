import { globSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { longestSentence, longSentencesOf } from "./sentences.ts";

const pages = globSync(["README.md", "docs/**/*.md"], {
  cwd: fileURLToPath(new URL("../..", import.meta.url)),
});

test.each(pages)(`%s has no sentence of more than ${longestSentence} words`, (page) => {
  expect(longSentencesOf(page)).toEqual([]);
});
