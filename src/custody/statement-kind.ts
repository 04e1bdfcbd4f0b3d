import { sha256 } from "@noble/hashes/sha2.js";
import * as z from "zod/mini";
import { toHex } from "../pki/encoding/bytes.ts";
import { encodeFields, type Fields, RecordError, type ValuesOf } from "./record-fields.ts";

/** The content of a statement, in the clear. */
export type StatementContent = Readonly<Record<string, string>>;

/** All that distinguishes the statements of one kind. Sealing, opening and backups read it. */
export interface StatementKind<Value> {
  /** The folder of a store in which the records are. */
  readonly folder: string;
  /** The length of the longest record. */
  readonly maximumLength: number;
  readonly content: (value: Value) => StatementContent;
  /** The value of an authentic content. @throws RecordError `form`, `certificate`. */
  readonly read: (content: StatementContent) => Value;
  /** The name of a record. It repeats the content, so that no writer overwrites what it has not seen. */
  readonly idOf: (value: Value) => string;
  readonly backup: BackupList<Value> | undefined;
}

/** The list of one kind in a backup. A kind without one is not in backups, or is there in another form. */
interface BackupList<Value> {
  readonly name: string;
  readonly most: number;
  /** Whether the list is there when it is empty, as every version demands. Later kinds are absent then. */
  readonly isRequired: boolean;
  readonly entry: z.ZodMiniType<Value>;
  readonly toJson: (value: Value) => StatementContent;
}

/** A kind by its fields, and by the value that these make. */
interface Description<F extends Fields, Value> {
  readonly folder: string;
  /** For refusals: `the statement of a taint`. */
  readonly title: string;
  readonly fields: F;
  readonly values: (value: Value) => ValuesOf<F>;
  readonly make: (values: ValuesOf<F>) => Value;
  readonly idOf: (value: Value, content: StatementContent) => string;
  readonly maximumLength?: number;
  readonly backup?: Omit<BackupList<Value>, "entry" | "toJson"> & Partial<BackupList<Value>>;
}

/** The row of a kind. */
export function statement<F extends Fields, Value>(
  own: Description<F, Value>,
): StatementKind<Value> {
  const form = z.strictObject(own.fields);
  const content = (value: Value): StatementContent =>
    encodeFields(own.fields, own.values(value)) as StatementContent;
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

/** For a kind whose fields are its value. */
export const itself = <T>(value: T): T => value;

/** SHA-256 of the fields and their texts in their order, in hexadecimal: no two contents share a record. */
export const contentId = (_: unknown, content: StatementContent): string =>
  toHex(sha256(new TextEncoder().encode(JSON.stringify(Object.entries(content)))));
