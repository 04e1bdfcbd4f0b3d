import { sha256 } from "@noble/hashes/sha2.js";
import * as z from "zod/mini";
import { parseBase64, toBase64 } from "../pki/encoding/base64.ts";
import { type Bytes, toHex } from "../pki/encoding/bytes.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { parseJson, RecordError, recordVersion } from "./authority-record.ts";
import type { RecordKind, StoredRecord } from "./authority-store.ts";
import type { Kek, KekRing } from "./kek.ts";
import { sealingKek } from "./sealed-head.ts";

/** The kinds of record that a MAC authenticates. A request carries a key, which is sealed by itself. */
export type StatementKind = Exclude<RecordKind, "authority">;

/** The content of a statement, in the clear. */
export type StatementContent = Readonly<Record<string, string>>;

const statementForm = z.strictObject({
  version: z.literal(recordVersion),
  id: z.string(),
  trustDomain: z.string(),
  kek: z.string(),
  says: z.record(z.string(), z.string()),
  mac: z.string(),
});

type Statement = z.infer<typeof statementForm>;

/** A revocation has many serial numbers. A store of files cuts records at 256 KiB. */
const maximumLength = (kind: RecordKind): number => (kind === "revocation" ? 250 : 32) * 1024;

/** Authenticates a statement under the newest KEK. */
export async function sealStatement(
  { kind, id }: { readonly kind: StatementKind; readonly id: string },
  says: StatementContent,
  trustDomain: TrustDomain,
  [kek]: KekRing,
): Promise<StoredRecord> {
  const statement: Omit<Statement, "mac"> = {
    version: recordVersion,
    id,
    trustDomain,
    kek: kek.id,
    says,
  };
  const mac = await crypto.subtle.sign("HMAC", kek.statementKey, boundOctets(kind, statement));
  return { kind, id, value: JSON.stringify({ ...statement, mac: toBase64(new Uint8Array(mac)) }) };
}

/** The name of a record that its content names: SHA-256 of the fields and values in their order, in hexadecimal. */
export const contentId = (content: StatementContent): string =>
  toHex(sha256(new TextEncoder().encode(JSON.stringify(Object.entries(content)))));

/**
 * The content of a statement, after checking that this trust domain made it, of this kind and about this
 * id.
 *
 * @throws RecordError
 */
export async function openStatement(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StatementContent> {
  return (await openWithKek(stored, trustDomain, keks)).says;
}

/**
 * Authenticates a statement anew under the newest KEK; `undefined` if that KEK did so already.
 *
 * @throws RecordError as {@link openStatement}.
 */
export async function resealStatement(
  stored: StoredRecord & { readonly kind: StatementKind },
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord | undefined> {
  const { says, kek } = await openWithKek(stored, trustDomain, keks);
  if (kek === keks[0]) return undefined;
  return sealStatement(stored, says, trustDomain, keks);
}

/** {@link openStatement}, with the KEK that authenticates the statement. @throws RecordError */
export async function openWithKek(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<{ readonly says: StatementContent; readonly kek: Kek }> {
  const statement = parseStatement(stored);
  const kek = sealingKek(statement, stored, trustDomain, keks);
  const mac = parseBase64(statement.mac);
  const octets = boundOctets(stored.kind, statement);
  if (mac && (await crypto.subtle.verify("HMAC", kek.statementKey, mac, octets))) {
    return { says: statement.says, kek };
  }
  throw new RecordError("seal", "the seal does not fit the statement and the KEK");
}

function parseStatement({ kind, value }: StoredRecord): Statement {
  const json = value.length <= maximumLength(kind) ? parseJson(value) : undefined;
  const parsed = statementForm.safeParse(json);
  // This code writes a statement in one way only, so another text of it comes from elsewhere.
  if (parsed.success && JSON.stringify(parsed.data) === value) return parsed.data;
  throw new RecordError("form", "not a statement as it was sealed");
}

/** JSON is unambiguous and the order of fields is fixed, so two statements never have the same octets. */
function boundOctets(kind: RecordKind, statement: Omit<Statement, "mac">): Bytes {
  const { version, id, trustDomain, kek, says } = statement;
  const bound = ["rampart statement", version, kind, id, trustDomain, kek, Object.entries(says)];
  return new TextEncoder().encode(JSON.stringify(bound)) as Bytes;
}
