import * as z from "zod/mini";
import { parseJson } from "../foundation/json.ts";
import { refuse } from "../foundation/text.ts";
import { Base64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";

/** The version of the records that this code writes, and the only one that it opens. */
export const recordVersion = 1;

/** A record that does not open, and the check that it failed. It is a fault of the store, never of a caller. */
export class RecordError extends Error {
  override readonly name = "RecordError";
  readonly check: "form" | "version" | "id" | "trust-domain" | "kek" | "seal" | "certificate";

  constructor(check: RecordError["check"], detail: string, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.check = check;
  }
}

/** Fields of records. */
export const Fields = {
  /** Octets as a field of a record: base64. */
  octets: z.codec(z.string(), z.custom<Bytes>(), {
    decode: (text, context) => Base64.parse(text) ?? refuse(context, "not base64"),
    encode: Base64.format,
  }),

  /** An instant as a field of a record: RFC 3339 with milliseconds, UTC. */
  instant: z.codec(z.iso.datetime({ precision: 3 }), z.date(), {
    decode: (text) => new Date(text),
    encode: (date) => date.toISOString(),
  }),

  /** Encodes values as the JSON of a record: the fields in their order, without the optional ones that are absent. */
  encode<F extends Fields>(fields: F, values: ValuesOf<F>): JsonOf<F> {
    const given = new Map(Object.entries(values));
    const members = Object.entries(fields)
      .filter(([name]) => given.get(name) !== undefined)
      .map(([name, field]) => [name, z.encode(field, given.get(name))]);
    return Object.fromEntries(members) as JsonOf<F>;
  },
};

/** The zod schema of each field of a record by its name, in the order in which a record has them. */
export type Fields = Readonly<Record<string, z.core.$ZodType>>;

/** The values of fields. */
export type ValuesOf<F extends Fields> = z.output<z.ZodMiniObject<F, z.core.$strict>>;

/** The values of fields as JSON. */
type JsonOf<F extends Fields> = z.input<z.ZodMiniObject<F, z.core.$strict>>;

/** The instants of a {@link Schedule} in their order. */
export const scheduleFields = {
  publishedFrom: Fields.instant,
  signsFrom: Fields.instant,
  signsUntil: Fields.instant,
  retiresAt: Fields.instant,
};

/** A private key (PKCS#8) under a KEK, as fields of a record. */
export const sealFields = { iv: Fields.octets, sealedKey: Fields.octets };

/** A private key (PKCS#8) under a KEK. */
export type SealedKey = Readonly<ValuesOf<typeof sealFields>>;

/** Parses the JSON of a stored record. @throws RecordError `form` if it is not JSON. */
export function parseRecordJson(value: string): unknown {
  try {
    return parseJson(value);
  } catch (error) {
    throw new RecordError("form", "not JSON", error);
  }
}
