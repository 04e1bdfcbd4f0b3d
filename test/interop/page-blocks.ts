import { readFile } from "node:fs/promises";

/** A fenced block of a page, without the indentation of a list that it is in. */
export interface PageBlock {
  readonly language: string;
  readonly text: string;
}

/** @throws Error if the page has no such heading of the second or third level, or two. */
export async function blocksUnder(page: string, heading: string): Promise<readonly PageBlock[]> {
  const [, ...sections] = (await readFile(page, "utf8")).split(/^###? /m);
  const found = sections.filter((each) => each.startsWith(`${heading}\n`));
  if (found.length !== 1) throw new Error(`${page} has ${found.length} headings ${heading}`);
  const [section = ""] = found;
  return [...section.matchAll(/^( *)```(\w+)\n(.*?)^ *```$/gms)].map(
    ([, indentation = "", language = "", text = ""]) => ({
      language,
      text: text.replaceAll(new RegExp(`^${indentation}`, "gm"), ""),
    }),
  );
}

/** The texts of the blocks in one language. */
export const textsIn = (blocks: readonly PageBlock[], language: string): readonly string[] =>
  blocks.filter((block) => block.language === language).map(({ text }) => text);
