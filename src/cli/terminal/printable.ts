const longest = 300;

/** What somebody else said, as one line that does nothing to a terminal. */
export function printable(text: string): string {
  const line = text.replace(/[^\x20-\x7e]+/g, "?");
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}
