import * as z from "zod/mini";
import { jsonText } from "../foundation/text/json-text.ts";
import type { ConfiguredTaint } from "../pki/authority/configured-taint.ts";

/** Sixteen characters are 64 bits: no two authorities of a mesh share them. */
const idPrefix = z
  .string()
  .check(z.regex(/^[0-9a-f]{16,64}$/, "must be 16 or more lower-case hexadecimal digits of an id"));

const table = z.strictObject({
  id: idPrefix,
  root_until: z.optional(z.iso.datetime("must be an instant, such as 2027-01-31T12:00:00Z")),
});

/** An id alone stands for a table with only that id. TOML has instants of its own. */
const entry = z.pipe(
  z.transform((value: unknown) => (typeof value === "string" ? { id: value } : withText(value))),
  table,
);

function withText(value: unknown): unknown {
  const { root_until } = Object(value) as { readonly root_until?: unknown };
  return root_until instanceof Date
    ? { ...Object(value), root_until: root_until.toISOString() }
    : value;
}

const taint = z.pipe(
  entry,
  z.transform(({ id, root_until }): ConfiguredTaint => {
    return { idPrefix: id, rootUntil: root_until === undefined ? undefined : new Date(root_until) };
  }),
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
