import { expect, test } from "vitest";
import { read } from "./page-files.ts";

const changelog = read("CHANGELOG.md");
const sections = changelog.split(/^## /m).slice(1);
const versionOf = (section: string): string => /^[^,\n]*/.exec(section)?.[0] ?? "";

test("the changelog has a heading for each version, with its date, and the version of this tree first", () => {
  const [newest = "", ...released] = sections.map((section) => section.split("\n")[0] ?? "");
  const { version } = JSON.parse(read("package.json"));
  const date = /^\d+\.\d+\.\d+, \d{4}-\d{2}-\d{2}$/;
  expect(newest).toMatch(new RegExp(`^${version}, (?:unreleased|\\d{4}-\\d{2}-\\d{2})$`));
  for (const heading of released) expect(heading).toMatch(date);
});

test("what an operator must do comes first in each version, and each entry is one line", () => {
  const known = ["You must do", "Security", "Added", "Changed"];
  for (const section of sections) {
    const parts = [...section.matchAll(/^### (.+)$/gm)].map(([, title = ""]) => title);
    expect(parts, versionOf(section)).toEqual(known.filter((title) => parts.includes(title)));
    // Below a part stand entries, and programs between them.
    const lines = section
      .split(/^### .+$/m)
      .slice(1)
      .join("")
      .split("\n")
      .filter(Boolean);
    for (const line of lines) expect(line).toMatch(/^(?:- \S|\*\*.+\*\*$)/);
  }
});

test("the changelog has at most 3,000 words, and no entry that asks for nothing", () => {
  expect(changelog.match(/\S*[\p{L}\p{N}]\S*/gu)?.length).toBeLessThanOrEqual(3000);
  expect(changelog).not.toMatch(/nothing to do/i);
});
