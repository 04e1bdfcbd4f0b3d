import * as z from "zod/mini";

/**
 * A list of names with stars, everything where it is left out.
 *
 * @param form What one of them looks like, stars included.
 * @param noun What they are names of.
 */
export function globs(
  form: RegExp,
  noun: string,
): z.ZodMiniDefault<z.ZodMiniArray<z.ZodMiniString>> {
  const glob = z.string().check(z.regex(form, `must be a ${noun}, or a glob with *`));
  const isNotEmpty = z.minLength(1, `must not be empty: leave it out to allow every ${noun}`);
  return z._default(z.array(glob).check(isNotEmpty, z.maxLength(256)), ["*"]);
}
