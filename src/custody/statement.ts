import * as z from "zod/mini";
import { Base64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { OpenTokenKey } from "../pki/jose/token-key.ts";
import { SignatureAlgorithm } from "../pki/signature-algorithm.ts";
import { SubjectPublicKey } from "../pki/x509/subject-public-key.ts";
import type { StoredRecord } from "./authority-store.ts";
import { type Custodian, type Kek, openKey, sealingKek, sealKey } from "./kek.ts";
import { parseRecordJson, RecordError, recordVersion } from "./record-fields.ts";
import {
  type RecordKind,
  type StatementContent,
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
    return (await openValue(kind, stored, custodian)).value;
  },

  /**
   * Makes a statement's record anew, with a MAC by the newest KEK, which then seals its private key, too.
   *
   * @returns `undefined` if the MAC is that KEK's already.
   * @throws RecordError as {@link Statement.open}, and `seal` if a private key does not open.
   */
  async reseal(
    stored: StoredRecord & { readonly kind: StatementName },
    custodian: Custodian,
  ): Promise<StoredRecord | undefined> {
    const { content, kek } = await openContent(stored, custodian);
    if (kek === custodian.keks[0]) return undefined;
    const { kind } = stored;
    if (kind !== "request" && kind !== "tokenKey") return sealContent(stored, content, custodian);
    const { value, privateKey } = await KeyedStatement.open(kind, stored, custodian);
    return KeyedStatement.seal(kind, value, privateKey, custodian);
  },
};

/** Makes the record of a statement's content, with a MAC by the newest KEK. */
export async function sealContent(
  { kind, id }: { readonly kind: StatementName; readonly id: string },
  content: StatementContent,
  { trustDomain, keks: [kek] }: Custodian,
): Promise<StoredRecord> {
  const head = { version: recordVersion, id, trustDomain, kek: kek.id, says: content } as const;
  const mac = await crypto.subtle.sign("HMAC", kek.statementKey, boundOctets(kind, head));
  const value = JSON.stringify({ ...head, mac: Base64.format(new Uint8Array(mac)) });
  return { kind, id, value };
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

async function openValue<K extends StatementName>(
  kind: K,
  stored: StoredRecord,
  custodian: Custodian,
): Promise<{ readonly value: Statements[K]; readonly kek: Kek }> {
  const { read, idOf } = statementKinds[kind];
  const { content, kek } = await openContent(stored, custodian);
  const value = read(content);
  if (idOf(value) === stored.id) return { value, kek };
  throw new RecordError("id", `stored under the name of another ${kind}`);
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

/** The kinds of statement that carry a private key (PKCS#8). The key is sealed by itself, so that listing them opens no key. */
type KeyedName = "request" | "tokenKey";

/** The value of a keyed statement without its sealed key. */
type Unkeyed<K extends KeyedName> = Omit<Statements[K], "iv" | "sealedKey">;

/** The purpose of the seal of a key, the fields in the clear that it binds, and the key's public part. */
interface KeyKind<Value> {
  readonly purpose: string;
  readonly fields: (value: Value) => object;
  readonly publicKeyOf: (value: Value) => SubjectPublicKey;
}

const keyKinds: { readonly [K in KeyedName]: KeyKind<Unkeyed<K>> } = {
  request: {
    purpose: "rampart authority request",
    fields: ({ requestedAt, csr }) => ({ requestedAt, csr: Base64.format(csr) }),
    publicKeyOf: ({ publicKey }) => publicKey,
  },
  tokenKey: {
    purpose: "rampart token key",
    fields: ({ schedule: { publishedFrom, signsFrom, signsUntil, retiresAt }, spki }) => ({
      instants: [publishedFrom, signsFrom, signsUntil, retiresAt],
      spki: Base64.format(spki),
    }),
    publicKeyOf: ({ spki }) => SubjectPublicKey.parse(spki),
  },
};

function boundTo<K extends KeyedName>(
  kind: K,
  value: Unkeyed<K> & { readonly id: string },
  trustDomain: string,
  kek: Kek,
): unknown {
  const { purpose, fields }: KeyKind<Unkeyed<K>> = keyKinds[kind];
  return [purpose, recordVersion, { id: value.id, trustDomain, kek: kek.id, ...fields(value) }];
}

/** Statements that carry a private key, sealed. */
export const KeyedStatement = {
  /** Makes the record of a statement: its private key is sealed with AES-256-GCM, and a MAC covers all of it. */
  async seal<K extends KeyedName>(
    kind: K,
    value: Unkeyed<K> & { readonly id: string },
    privateKey: CryptoKey,
    custodian: Custodian,
  ): Promise<StoredRecord> {
    const [kek] = custodian.keks;
    const sealed = await sealKey(privateKey, kek, boundTo(kind, value, custodian.trustDomain, kek));
    return Statement.seal(kind, { ...value, ...sealed } as unknown as Statements[K], custodian);
  },

  /** Opens a key as one that can be exported, for a backup or for the record of an authority. @throws RecordError if it does not open. */
  open: <K extends KeyedName>(kind: K, stored: StoredRecord, custodian: Custodian) =>
    openKeyed(kind, stored, custodian, true),

  /** Opens a key for tokens, which no code can export. @throws RecordError if it does not open. */
  async openTokenKey(stored: StoredRecord, custodian: Custodian): Promise<OpenTokenKey> {
    const { value, privateKey } = await openKeyed("tokenKey", stored, custodian, false);
    const { iv, sealedKey, ...key } = value;
    return { ...key, privateKey };
  },
};

async function openKeyed<K extends KeyedName>(
  kind: K,
  stored: StoredRecord,
  custodian: Custodian,
  extractable: boolean,
): Promise<{ readonly value: Statements[K]; readonly privateKey: CryptoKey }> {
  const { value, kek } = await openValue(kind, stored, custodian);
  const { publicKeyOf }: KeyKind<Unkeyed<K>> = keyKinds[kind];
  const bound = boundTo(kind, value, custodian.trustDomain, kek);
  const { importParameters } = SignatureAlgorithm.of(publicKeyOf(value));
  return { value, privateKey: await openKey(value, kek, bound, importParameters, extractable) };
}
