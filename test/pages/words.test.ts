import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const pages = globSync(["README.md", "docs/**/*.md"], {
  cwd: fileURLToPath(new URL("../..", import.meta.url)),
});

/** Pages that a program writes. */
const generated = ["cli", "metric-names"].map((name) => `docs/reference/${name}.md`);

/** What a program writes into a page. */
const parts = /<!-- (outages|findings|alerts|export) -->[\s\S]*<!-- end of \1 -->/g;

test("the docs have at most 42,000 words, those that a program writes aside", () => {
  const written = pages.filter((page) => page !== "README.md" && !generated.includes(page));
  const words = written.flatMap((page) =>
    // The bars of a table are none.
    readFileSync(new URL(`../../${page}`, import.meta.url), "utf8")
      .replace(parts, "")
      .match(/\S*[\p{L}\p{N}]\S*/gu),
  );
  expect(words.length).toBeLessThanOrEqual(42_000);
});
