import * as z from "zod/mini";
import { parseUniqueJson } from "../unique-members.ts";
import { refuse } from "./parsed-text.ts";

/** A value, or its JSON in a string: `.dev.vars` and environment variables hold only strings. */
export const jsonText: z.ZodMiniType<unknown> = z.pipe(z.unknown(), z.transform(fromText));

function fromText(value: unknown, context: z.core.ParsePayload): unknown {
  if (typeof value !== "string") return value;
  try {
    return parseUniqueJson(value);
  } catch (error) {
    // The parser's message quotes the text, which may hold more than a log should.
    return refuse(
      context,
      error instanceof SyntaxError
        ? "must be JSON, with no name twice in one object"
        : "cannot be read",
    );
  }
}
