import { styleText } from "node:util";

/** What a text is laid out for. */
export interface Screen {
  /** The columns of a line; infinitely many where nobody breaks lines. */
  readonly width: number;
  /** A text in the colour of its meaning, where colours show. */
  readonly styled: (meaning: Meaning, text: string) => string;
}

/** The meaning of a style to an operator. */
export type Meaning = "good" | "warning" | "bad" | "heading" | "quiet";

const formats = {
  good: "green",
  warning: "yellow",
  bad: "red",
  heading: "bold",
  quiet: "dim",
} as const satisfies Record<Meaning, Parameters<typeof styleText>[0]>;

export type ScreenStream = NodeJS.WritableStream & {
  readonly isTTY?: boolean;
  readonly columns?: number;
};

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The screen behind a stream. Node decides about colours, by NO_COLOR, FORCE_COLOR and TERM. */
export const screenOf = (stream: ScreenStream, environment: Environment): Screen => ({
  width: widthOf(stream, environment),
  styled: (meaning, text) => styleText(formats[meaning], text, { stream }),
});

/** The widest line on a terminal that does not tell its width. */
export const usualWidth = 100;

/** A narrower terminal breaks lines by itself. */
const narrowest = 40;

/**
 * The columns that a stream has room for: those of the terminal, or as many as `COLUMNS` says. A pipe or a file
 * has room for all, so that each row is one line for `grep` and `awk`.
 */
function widthOf({ isTTY, columns }: ScreenStream, { COLUMNS: wished }: Environment): number {
  if (wished !== undefined && /^[1-9]\d{0,4}$/.test(wished)) {
    return Math.max(Number(wished), narrowest);
  }
  if (!isTTY) return Number.POSITIVE_INFINITY;
  return columns ? Math.max(columns, narrowest) : usualWidth;
}
