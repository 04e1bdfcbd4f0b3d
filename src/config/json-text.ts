import * as z from "zod";

/** The value of JSON in a text: `.dev.vars` and environment variables know no tables. */
export function jsonText(text: string, context: z.RefinementCtx): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's message quotes the text, which may hold more than a log should.
    context.addIssue(error instanceof SyntaxError ? "must be JSON" : "cannot be read");
    return z.NEVER;
  }
}
