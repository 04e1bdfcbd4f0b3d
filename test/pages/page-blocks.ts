import { readFile } from "node:fs/promises";

/** A fenced block of a page, without the indentation of the list that it is in. */
export interface FencedBlock {
  readonly line: number;
  /** The first word behind the fence, such as `sh`. */
  readonly language: string;
  /** The words behind the language: what the block needs, or how it ends. */
  readonly mark: string;
  readonly text: string;
  /** The heading above it, without its level. */
  readonly heading: string;
}

const fence = /^( *)```(\S*) ?(.*)$/;

/** The blocks of a page or of a part of one, in their order. */
export function fencedBlocks(markdown: string): FencedBlock[] {
  const blocks: FencedBlock[] = [];
  let lines: string[] | undefined;
  let indent = "";
  let heading = "";
  for (const [i, row] of markdown.split("\n").entries()) {
    const [, spaces = "", language = "", mark = ""] = fence.exec(row) ?? [];
    if (!lines) heading = /^#+ (.*)$/.exec(row)?.[1] ?? heading;
    if (!fence.test(row)) lines?.push(row.startsWith(indent) ? row.slice(indent.length) : row);
    else if (lines) {
      const open = blocks.at(-1);
      if (open) blocks[blocks.length - 1] = { ...open, text: `${lines.join("\n")}\n` };
      lines = undefined;
    } else {
      lines = [];
      indent = spaces;
      blocks.push({ line: i + 1, language, mark, text: "", heading });
    }
  }
  return blocks;
}

/** @throws Error if the page has no such heading of the second or third level, or two. */
export async function blocksUnder(page: string, heading: string): Promise<readonly FencedBlock[]> {
  const [, ...sections] = (await readFile(page, "utf8")).split(/^###? /m);
  const found = sections.filter((each) => each.startsWith(`${heading}\n`));
  if (found.length !== 1) throw new Error(`${page} has ${found.length} headings ${heading}`);
  return found.flatMap(fencedBlocks);
}

export const textsIn = (blocks: readonly FencedBlock[], language: string): readonly string[] =>
  blocks.filter((block) => block.language === language).map(({ text }) => text);
