import * as z from "zod";

/**
 * A list of names with stars, everything where it is left out.
 *
 * @param form What one of them looks like, stars included.
 * @param noun What they are names of.
 */
export function globs(form: RegExp, noun: string): z.ZodDefault<z.ZodArray<z.ZodString>> {
  return z
    .array(z.string().regex(form, `must be a ${noun}, or a glob with *`))
    .min(1, `must not be empty: leave it out to allow every ${noun}`)
    .max(256)
    .default(["*"]);
}
