import * as z from "zod/mini";
import { Base64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { StoredRecord } from "./authority-store.ts";
import { type Custodian, type Kek, sealingKek } from "./kek.ts";
import type { StatementContent } from "./record-fields.ts";
import { parseRecordJson, RecordError, recordVersion } from "./record-fields.ts";
import {
  type RecordKind,
  type StatementName,
  type Statements,
  statementKinds,
} from "./record-kinds.ts";

const statementSchema = z.strictObject({
  version: z.literal(recordVersion),
  id: z.string(),
  trustDomain: z.string(),
  kek: z.string(),
  says: z.record(z.string(), z.string()),
  mac: z.string(),
});

type Statement = z.output<typeof statementSchema>;

/** Statements of an operator or of the CA, which a MAC authenticates. */
export const Statement = {
  /** Makes the record of a statement, which stays readable and gets a MAC by the newest KEK. */
  async seal<K extends StatementName>(
    kind: K,
    value: Statements[K],
    custodian: Custodian,
  ): Promise<StoredRecord> {
    const { content, idOf } = statementKinds[kind];
    return sealContent({ kind, id: idOf(value) }, content(value), custodian);
  },

  /** Verifies a statement's MAC, kind and id, and parses its content. @throws RecordError as {@link openContent}, and `certificate`. */
  async open<K extends StatementName>(
    kind: K,
    stored: StoredRecord,
    custodian: Custodian,
  ): Promise<Statements[K]> {
    const { read, idOf } = statementKinds[kind];
    const { content } = await openContent(stored, custodian);
    const value = read(content);
    if (idOf(value) === stored.id) return value;
    throw new RecordError("id", `stored under the name of another ${kind}`);
  },

  /**
   * Makes a statement's record anew, with a MAC by the newest KEK. @returns `undefined` if the MAC is that KEK's already.
   *
   * @throws RecordError as {@link openContent}.
   */
  async reseal(
    stored: StoredRecord & { readonly kind: StatementName },
    custodian: Custodian,
  ): Promise<StoredRecord | undefined> {
    const { content, kek } = await openContent(stored, custodian);
    if (kek === custodian.keks[0]) return undefined;
    return sealContent(stored, content, custodian);
  },
};

/** Makes the record of a statement's content, with a MAC by the newest KEK. */
export async function sealContent(
  { kind, id }: { readonly kind: StatementName; readonly id: string },
  content: StatementContent,
  { trustDomain, keks: [kek] }: Custodian,
): Promise<StoredRecord> {
  const statement = {
    version: recordVersion,
    id,
    trustDomain,
    kek: kek.id,
    says: content,
  } as const;
  const mac = await crypto.subtle.sign("HMAC", kek.statementKey, boundOctets(kind, statement));
  return {
    kind,
    id,
    value: JSON.stringify({ ...statement, mac: Base64.format(new Uint8Array(mac)) }),
  };
}

/**
 * Verifies that this trust domain made a statement, of this kind and about this id.
 *
 * @returns Its content, and the KEK that its MAC is of.
 * @throws RecordError `form`, `id`, `trust-domain`, `kek`, `seal`.
 */
export async function openContent(
  stored: StoredRecord,
  custodian: Custodian,
): Promise<{ readonly content: StatementContent; readonly kek: Kek }> {
  const statement = parseStatement(stored);
  const kek = sealingKek(statement, stored, custodian);
  const mac = Base64.parse(statement.mac);
  const octets = boundOctets(stored.kind, statement);
  if (mac && (await crypto.subtle.verify("HMAC", kek.statementKey, mac, octets))) {
    return { content: statement.says, kek };
  }
  throw new RecordError("seal", "the seal does not fit the statement and the KEK");
}

function parseStatement({ kind, value }: StoredRecord): Statement {
  const json = value.length <= maximumLength(kind) ? parseRecordJson(value) : undefined;
  const parsed = statementSchema.safeParse(json);
  // This code writes a statement in one way only. Another text of the same content was written by something else.
  if (parsed.success && JSON.stringify(parsed.data) === value) return parsed.data;
  throw new RecordError("form", "not a statement as it was sealed");
}

/** The length of the longest record of a kind. For an authority, which is no statement, any will do. */
const maximumLength = (kind: RecordKind): number =>
  kind === "authority" ? statementKinds.taint.maximumLength : statementKinds[kind].maximumLength;

/** JSON is unambiguous and the order of fields is fixed, so two statements never have the same octets. */
function boundOctets(kind: RecordKind, statement: Omit<Statement, "mac">): Bytes {
  const { version, id, trustDomain, kek, says } = statement;
  const bound = ["rampart statement", version, kind, id, trustDomain, kek, Object.entries(says)];
  return new TextEncoder().encode(JSON.stringify(bound)) as Bytes;
}
