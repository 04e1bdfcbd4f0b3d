const longest = 300;

/** Untrusted text as one line without control characters. */
export function printable(text: string): string {
  const line = text.replace(/[^\x20-\x7e]+/g, "?");
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}
