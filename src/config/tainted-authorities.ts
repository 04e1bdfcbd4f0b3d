import * as z from "zod/mini";
import { jsonText } from "../foundation/text/json-text.ts";
import type { ConfiguredTaint } from "../pki/authority/configured-taint.ts";
import { instant, tableOrText } from "./text-forms.ts";

/** Sixteen characters are 64 bits: no two authorities of a mesh share them. */
const idPrefix = z
  .string()
  .check(z.regex(/^[0-9a-f]{16,64}$/, "must be 16 or more lower-case hexadecimal digits of an id"));

const entry = tableOrText("id", z.strictObject({ id: idPrefix, root_until: z.optional(instant) }));

const taint = z.pipe(
  entry,
  z.transform(({ id, root_until }): ConfiguredTaint => ({ idPrefix: id, rootUntil: root_until })),
);

/** `TAINTED_AUTHORITIES`: a list of ids and tables, or the same as JSON in a text. */
export const taintedAuthorities: z.ZodMiniType<readonly ConfiguredTaint[]> = z.pipe(
  jsonText,
  z.array(taint).check(z.maxLength(100)),
);

/** The line of the configuration that states these taints, in TOML. */
export function formatTaintedAuthorities(taints: readonly ConfiguredTaint[]): string {
  const tables = taints.map(({ idPrefix: id, rootUntil }) =>
    rootUntil
      ? `{ id = "${id}", root_until = "${rootUntil.toISOString().replace(".000Z", "Z")}" }`
      : `"${id}"`,
  );
  return `TAINTED_AUTHORITIES = [${tables.join(", ")}]`;
}
