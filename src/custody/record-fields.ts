import { sha256 } from "@noble/hashes/sha2.js";
import * as z from "zod/mini";
import { parseJson } from "../foundation/json.ts";
import { refuse } from "../foundation/text.ts";
import { Base64 } from "../pki/encoding/base64.ts";
import { type Bytes, Hex } from "../pki/encoding/bytes.ts";

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

/** The content of a statement, in the clear. */
export type StatementContent = Readonly<Record<string, string>>;

/** All that distinguishes the statements of one kind. Sealing, opening and backups read it. */
export interface StatementKind<Value> {
  /** The folder of a store in which the records are. */
  readonly folder: string;
  /** The length of the longest record. */
  readonly maximumLength: number;
  readonly content: (value: Value) => StatementContent;
  /** Parses the value of an authentic content. @throws RecordError `form`, `certificate`. */
  readonly read: (content: StatementContent) => Value;
  /** The name of a record. It repeats the content, so that no writer overwrites what it has not seen. */
  readonly idOf: (value: Value) => string;
  readonly backup: BackupList<Value> | undefined;
}

/**
 * How the statements of one kind are listed in a backup. A kind without this is not in backups, or has its own form
 * there.
 */
interface BackupList<Value> {
  readonly name: string;
  readonly most: number;
  /**
   * Whether a backup has the list even when it is empty, as every version of the program demands of the oldest kinds.
   */
  readonly isRequired: boolean;
  readonly entry: z.ZodMiniType<Value>;
  readonly toJson: (value: Value) => StatementContent;
}

/** Describes a kind of statement: its fields, and the value that they make. */
interface Description<F extends Fields, Value> {
  readonly folder: string;
  /** What errors call the record, such as `the statement of a taint`. */
  readonly title: string;
  readonly fields: F;
  readonly values: (value: Value) => ValuesOf<F>;
  readonly make: (values: ValuesOf<F>) => Value;
  readonly idOf: (value: Value, content: StatementContent) => string;
  readonly maximumLength?: number;
  readonly backup?: Omit<BackupList<Value>, "entry" | "toJson"> & Partial<BackupList<Value>>;
}

/** Makes the table row of a kind of statement from its fields. */
export function statement<F extends Fields, Value>(
  own: Description<F, Value>,
): StatementKind<Value> {
  const form = z.strictObject(own.fields);
  const content = (value: Value): StatementContent =>
    Fields.encode(own.fields, own.values(value)) as StatementContent;
  const entry = z.pipe(
    form,
    z.transform((values) => own.make(values as ValuesOf<F>)),
  );
  return {
    folder: own.folder,
    maximumLength: own.maximumLength ?? 32 * 1024,
    content,
    read: (says) => {
      const parsed = form.safeParse(says);
      if (parsed.success) return own.make(parsed.data as ValuesOf<F>);
      throw new RecordError("form", `not ${own.title}`);
    },
    idOf: (value) => own.idOf(value, content(value)),
    backup: own.backup && { entry, toJson: content, ...own.backup },
  };
}

/** The identity function, for a kind whose fields are its value. */
export const itself = <T>(value: T): T => value;

/** SHA-256 of the fields and their texts in their order, in hexadecimal: no two contents share a record. */
export const contentId = (_: unknown, content: StatementContent): string =>
  Hex.format(sha256(new TextEncoder().encode(JSON.stringify(Object.entries(content)))));
