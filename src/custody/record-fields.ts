import * as z from "zod/mini";
import { refuse } from "../foundation/text.ts";
import { parseBase64, toBase64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";

/** The version of the records that this code writes, and the only one that it opens. */
export const recordVersion = 1;

/**
 * A record that does not open, and the check that it failed. It is a fault of the store, never of a
 * caller.
 */
export class RecordError extends Error {
  override readonly name = "RecordError";
  readonly check: "form" | "version" | "id" | "trust-domain" | "kek" | "seal" | "certificate";

  constructor(check: RecordError["check"], detail: string, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.check = check;
  }
}

/** Octets as a field of a record: base64. */
export const octets = z.codec(z.string(), z.custom<Bytes>(), {
  decode: (text, context) => parseBase64(text) ?? refuse(context, "not base64"),
  encode: toBase64,
});

/** An instant as a field of a record: RFC 3339 with milliseconds, UTC. */
export const instant = z.codec(z.iso.datetime({ precision: 3 }), z.date(), {
  decode: (text) => new Date(text),
  encode: (date) => date.toISOString(),
});

/** Fields by their names, in the order in which a record has them. */
export type Fields = Readonly<Record<string, z.core.$ZodType>>;

/** The values of fields. */
export type ValuesOf<F extends Fields> = z.output<z.ZodMiniObject<F, z.core.$strict>>;

/** The values of fields as JSON. */
type JsonOf<F extends Fields> = z.input<z.ZodMiniObject<F, z.core.$strict>>;

/** Values as the JSON of a record: the fields in their order, without those that are not there. */
export function encodeFields<F extends Fields>(fields: F, values: ValuesOf<F>): JsonOf<F> {
  const given = new Map(Object.entries(values));
  const members = Object.entries(fields)
    .filter(([name]) => given.get(name) !== undefined)
    .map(([name, field]) => [name, z.encode(field, given.get(name))]);
  return Object.fromEntries(members) as JsonOf<F>;
}

/** @throws RecordError `form`. */
export function parseJson(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch (error) {
    throw new RecordError("form", "not JSON", error);
  }
}
