import { z } from "zod";

/** JSON in a text, as whatever it holds. */
export const JsonText: z.ZodType<unknown, string> = z.string().transform((text, context) => {
  try {
    return JSON.parse(text);
  } catch {
    context.addIssue("must be JSON");
    return z.NEVER;
  }
});
