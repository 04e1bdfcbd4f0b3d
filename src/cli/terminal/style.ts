import { styleText } from "node:util";

/** The meaning of a style to an operator. */
export type Meaning = "good" | "warning" | "bad" | "heading" | "quiet";

const formats = {
  good: "green",
  warning: "yellow",
  bad: "red",
  heading: "bold",
  quiet: "dim",
} as const satisfies Record<Meaning, Parameters<typeof styleText>[0]>;

/**
 * A text in the colour of its meaning, where the stream is a terminal that has colours. Node decides by
 * NO_COLOR, FORCE_COLOR and TERM.
 */
export const styled = (
  meaning: Meaning,
  text: string,
  stream: NodeJS.WritableStream = process.stdout,
): string => styleText(formats[meaning], text, { stream });
