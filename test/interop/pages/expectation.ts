/**
 * Compares what a page shows with what was printed: each line of the page has to come, in its order. `…` stands for
 * anything, and the number of spaces does not count.
 *
 * @returns The first line of the page that did not come.
 */
export function missingLine(shown: string, printed: string): string | undefined {
  const lines = printed.split("\n").map(plain);
  let from = 0;
  for (const line of shown.trimEnd().split("\n")) {
    const form = new RegExp(`^${plain(line).split("…").map(literal).join(".*")}$`);
    const at = lines.findIndex((each, i) => i >= from && form.test(each));
    if (at < 0) return line;
    from = at + 1;
  }
  return undefined;
}

const plain = (line: string): string => line.trim().replaceAll(/\s+/g, " ");
const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
