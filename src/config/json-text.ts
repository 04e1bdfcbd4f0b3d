import * as z from "zod";

/** A value as it is, or as JSON in a text: `.dev.vars` and environment variables know no tables. */
export function fromText(value: unknown, context: z.RefinementCtx): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch (error) {
    // The parser's message quotes the text, which may hold more than a log should.
    context.addIssue(error instanceof SyntaxError ? "must be JSON" : "cannot be read");
    return z.NEVER;
  }
}
