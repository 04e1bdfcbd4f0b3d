const longest = 300;

/** Untrusted text as one line of letters, digits, punctuation and symbols, so that it cannot steer a terminal. */
export function printable(text: string): string {
  const line = text.replace(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, "?");
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}
