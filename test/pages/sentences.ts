import { readFileSync } from "node:fs";

/** The most words of a sentence, or of a part of it up to a colon or a semicolon. */
export const longestSentence = 25;

const isProse = (row: string): boolean => row.trim() !== "" && !/^ *(?:\||#|<)/.test(row);

/** The paragraphs and items of lists of a page, each on one line, as they stand. */
function paragraphsOf(page: string): string[] {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), "utf8");
  const rows = text.replaceAll(/^ *```[\s\S]*?^ *```$/gm, "").split("\n");
  const paragraphs: string[][] = [];
  let open: string[] | undefined;
  for (const row of rows) {
    if (!isProse(row)) open = undefined;
    else if (open && !/^ *(?:[-*]|\d+\.) /.test(row)) open.push(row.trim());
    else {
      open = [row.trim()];
      paragraphs.push(open);
    }
  }
  return paragraphs.map((lines) => lines.join(" ").replace(/^(?:[-*]|\d+\.) /, ""));
}

/** A code counts as one word, and where a link leads does not count. */
const plain = (sentence: string): string =>
  sentence
    .replaceAll(/`[^`]*`/g, "code")
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll("**", "");

/** The sentences of a page that are too long, as they stand. */
export function longSentencesOf(page: string): string[] {
  return paragraphsOf(page)
    .flatMap((paragraph) => paragraph.split(/(?<=[.!?:;][)"*]*)\s+/))
    .filter((sentence) => plain(sentence).split(/\s+/).length > longestSentence);
}
