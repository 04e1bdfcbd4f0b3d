import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

test("the page for troubles has a row for every reason of a refusal, and for no other", () => {
  const reasons = [...read("src/foundation/refusal.ts").matchAll(/\| \{ reason: "([\w-]+)"/g)];
  const rows = read("docs/how-to/troubleshoot.md").split("## A caller gets no certificate")[1];
  const table = rows?.split("\n## ")[0]?.split("\n") ?? [];
  const named = table
    .filter((row) => row.startsWith("| `") && !row.startsWith("| `reason`"))
    .flatMap((row) => row.split("|")[1]?.match(/[a-z][\w-]+/g) ?? []);
  expect(named.toSorted()).toEqual(reasons.map(([, reason]) => reason).toSorted());
});
