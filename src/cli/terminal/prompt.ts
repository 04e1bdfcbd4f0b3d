import { once } from "node:events";
import { createInterface } from "node:readline/promises";

/** The streams of a terminal. The output may be one that shows nothing. */
export interface TerminalStreams {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
}

/** The line that somebody types; `undefined` if they end it with Ctrl-C or Ctrl-D instead. */
export async function prompt(
  question: string,
  { input, output }: TerminalStreams,
): Promise<string | undefined> {
  const terminal = createInterface({ input, output, terminal: true });
  try {
    const closed = once(terminal, "close").then(() => undefined);
    const typed = terminal.question(question).catch(() => undefined);
    return await Promise.race([typed, closed]);
  } finally {
    terminal.close();
  }
}
