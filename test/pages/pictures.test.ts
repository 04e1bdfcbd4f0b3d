import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string): string => readFileSync(`${root}/${path}`, "utf8");
const pages = globSync(["*.md", "docs/**/*.md"], { cwd: root }).map(read);
const pictures = globSync("docs/pictures/*.svg", { cwd: root });

test.each(pictures)("%s says what it shows, has dark colours, and stands on a page", (picture) => {
  const svg = read(picture);
  expect(svg).toMatch(/aria-labelledby="title desc"/);
  expect(svg).toMatch(/<title id="title">[^<]+<\/title>\s*<desc id="desc">[^<]+<\/desc>/);
  expect(svg).toMatch(/@media \(prefers-color-scheme: dark\)/);
  expect(svg).not.toMatch(/<script|<foreignObject|href="http|@import|url\(http/i);
  const name = picture.split("/").at(-1);
  expect(pages.filter((page) => page.includes(`pictures/${name}" alt="`))).not.toEqual([]);
});
