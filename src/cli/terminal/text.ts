import { stripVTControlCharacters } from "node:util";

/** Formats an instant to the minute, in UTC. */
export function formatInstant(instant: Date): string {
  return `${instant.toISOString().slice(0, 16).replace("T", " ")}Z`;
}

/** The first 12 characters of an id, by which a person can tell it from others. */
export const shortId = (id: string): string => id.slice(0, 12);

/** Says which lines of the configuration keep a statement in force even if the store loses it. */
export const configuredAnyway = (what: string, key: string, entries: readonly string[]): string => `
Anybody who can write to the store can withhold this ${what}. To have it count whatever the store says,
put these lines into the configuration: in rampart.toml above all tables, in wrangler.toml under [vars].
${key} = [
${entries.map((entry) => `  ${entry},`).join("\n")}
]`;

/** Quotes a word for a POSIX shell if it needs quotation marks. */
export const quoted = (word: string): string =>
  /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

const longest = 300;

/**
 * Makes untrusted text one line that cannot steer a terminal: what is no letter, digit, punctuation or symbol becomes
 * `?`, and what is beyond 300 characters `…`.
 */
export function printable(text: string): string {
  const line = text.replace(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, "?");
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}

/** The ranges of Unicode that terminals show two columns wide (UAX #11), in blocks. */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;

const widthOf = (character: string): number => (wide.test(character) ? 2 : 1);

/** The columns that a line takes on a terminal. */
export function columnsOf(text: string): number {
  const shown = stripVTControlCharacters(text);
  let columns = 0;
  for (const character of shown) columns += widthOf(character);
  return columns;
}

/**
 * Breaks a line into lines of at most `width` columns, at spaces where there are any.
 * @param indent What the second line and all others begin with. It must be narrower than `width`.
 */
export function wrap(line: string, width: number, indent: string): readonly string[] {
  if (columnsOf(line) <= width) return [line];
  const head = headOf(line, width);
  const start = line.length - line.trimStart().length;
  const space = head.lastIndexOf(" ");
  const end = space > start ? space : head.length;
  const rest = line.slice(end).trimStart();
  return [line.slice(0, end).trimEnd(), ...wrap(indent + rest, width, indent)];
}

/** The beginning of a line that fits into a width. Styles take no width and are not cut in two. */
function headOf(line: string, width: number): string {
  let end = 0;
  let columns = 0;
  let isStyle = false;
  for (const character of line) {
    isStyle ||= character === "\u001b";
    columns += isStyle ? 0 : widthOf(character);
    if (columns > width) break;
    if (character === "m") isStyle = false;
    end += character.length;
  }
  return line.slice(0, end);
}
