import { armor, Decrypter, Encrypter } from "age-encryption";
import * as z from "zod/mini";
import { Mint } from "../../../ca/mint.ts";
import { AuthorityRecord } from "../../../custody/authority-record.ts";
import { Fields } from "../../../custody/record-fields.ts";
import {
  type RecordKind,
  type StatementName,
  type Statements,
  statementKinds,
} from "../../../custody/record-kinds.ts";
import { KeyedStatement } from "../../../custody/statement.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { JsonBounds } from "../../../foundation/json.ts";
import { jsonIn } from "../../../foundation/json-members.ts";
import { nodeCryptoProvider } from "../../../node/node-crypto-provider.ts";
import { Session } from "../../session/session.ts";
import {
  authorityContent,
  authoritySchema,
  openAuthority,
  readRequest,
  readTokenKey,
  refuseContent,
  requestContent,
  requestSchema,
  restoredTokenKeys,
  tokenKeyContent,
  tokenKeySchema,
} from "./backup-content.ts";

/** The kinds of statement, in the order in which they are restored. */
const kinds = Object.keys(statementKinds) as StatementName[];

/** How the statements of one kind are listed in a backup. */
interface BackupList<Value> {
  readonly name: string;
  readonly most: number;
  /** Whether a backup has the list even when it is empty, as every version of the program demands of the oldest kinds. */
  readonly isRequired: boolean;
  readonly schema: z.ZodMiniType<Value>;
  readonly content: (value: Value) => object;
}

/** An identifier of a backup becomes part of a record's name in the store. */
const identifier = z.string().check(z.regex(/^[0-9a-f]{2,256}$/));
const taintFields = { id: identifier, taintedAt: Fields.instant, retiresAt: Fields.instant };

/**
 * The lists of a backup. It has requests and keys for tokens in forms of their own, because no KEK seals their private keys
 * there, and no CRL of a root, because the root can sign another one.
 */
const backupLists: { readonly [K in StatementName]?: BackupList<Statements[K]> } = {
  taint: {
    name: "taints",
    most: 100,
    isRequired: true,
    schema: z.strictObject(taintFields),
    content: (taint) => Fields.encode(taintFields, taint),
  },
  denial: { ...statementKinds.denial, name: "denials", most: 500, isRequired: false },
  revocation: { ...statementKinds.revocation, name: "revocations", most: 500, isRequired: false },
  root: { ...statementKinds.root, name: "additionalRoots", most: 100, isRequired: true },
};

const listForms: Readonly<Record<string, z.ZodMiniType>> = Object.fromEntries(
  kinds.flatMap((kind) => {
    const list = backupLists[kind];
    if (!list) return [];
    const form = z.array(list.schema as z.ZodMiniType).check(z.maxLength(list.most));
    return [[list.name, list.isRequired ? form : z.optional(form)]];
  }),
);

const backupSchema = z.strictObject({
  ...listForms,
  format: z.literal("rampart backup"),
  version: z.literal(1),
  /** Absent in older backups. */
  writtenAt: z.optional(Fields.instant),
  trustDomain: z.string(),
  authorities: z.array(authoritySchema).check(z.maxLength(100)),
  /** Absent if no request is open, so that older versions can restore the backup. */
  requests: z.optional(z.array(requestSchema).check(z.minLength(1), z.maxLength(100))),
  tokenKeys: z.optional(z.array(tokenKeySchema).check(z.minLength(1), z.maxLength(100))),
});

/** A backup is encrypted under a passphrase (scrypt), or to age recipients. */
export type BackupLock =
  | { readonly passphrase: string }
  | { readonly recipients: readonly string[] };

/** A backup is decrypted with its passphrase, or with one of its age identities. */
export type BackupKey = { readonly passphrase: string } | { readonly identity: string };

/**
 * Makes a backup as armoured age (age-encryption.org/v1), which `age -d` decrypts without this program: all records
 * with their private keys, and the taints of the configuration. It does not depend on the KEKs.
 * @throws OperatorError for a record that does not open, a store without an authority or a request, and a recipient
 *   that is no age key.
 */
export async function sealBackup(session: Session, lock: BackupLock): Promise<string> {
  const content = JSON.stringify(await collect(session));
  const encrypter = new Encrypter();
  if ("passphrase" in lock) encrypter.setPassphrase(lock.passphrase);
  else for (const recipient of lock.recipients) addRecipient(encrypter, recipient);
  return armor.encode(await encrypter.encrypt(content));
}

/** Whether a text begins as an armoured age file does; tested before anybody is asked for a passphrase. */
export const isArmoured = (text: string): boolean =>
  text.trimStart().startsWith("-----BEGIN AGE ENCRYPTED FILE-----");

function addRecipient(encrypter: Encrypter, recipient: string): void {
  try {
    encrypter.addRecipient(recipient);
  } catch {
    throw new OperatorError("a recipient is not an age public key (age1…)");
  }
}

async function collect(session: Session): Promise<object> {
  const { mint } = session;
  const opened = await Session.open(session);
  Session.requireAllOpen(opened);
  const { taints, storedTaints, statements } = opened;
  const requests = await Promise.all(opened.requests.map((each) => requestContent(session, each)));
  const stored = await mint.store.load();
  const ofKind = (wanted: RecordKind) => stored.filter(({ kind }) => kind === wanted);
  const authorities = await Promise.all(
    ofKind("authority").map(async (record) =>
      authorityContent(await AuthorityRecord.openExtractable(record, mint)),
    ),
  );
  const tokenKeys = await Promise.all(
    ofKind("tokenKey").map(async (record) => {
      const { value: key, privateKey } = await KeyedStatement.open("tokenKey", record, mint);
      return tokenKeyContent({ key, extractablePrivateKey: privateKey });
    }),
  );
  if (authorities.length + requests.length === 0) {
    throw new OperatorError("the store holds no authority");
  }
  // The backup must have the taints that only the configuration states. They have no instant, so they get this one.
  const all = taints.map((taint) =>
    storedTaints.includes(taint) ? taint : { ...taint, taintedAt: session.now },
  );
  return {
    format: "rampart backup",
    version: 1,
    writtenAt: session.now.toISOString(),
    trustDomain: mint.trustDomain,
    authorities,
    ...listsOf({ ...statements, taint: all, tokenKey: [] }),
    ...(requests.length > 0 && { requests }),
    ...(tokenKeys.length > 0 && { tokenKeys }),
  };
}

/** The values of every kind of statement. */
type StatementLists = { readonly [K in StatementName]: readonly Statements[K][] };

function listsOf(statements: StatementLists): Record<string, unknown[]> {
  const listed = <K extends StatementName>(kind: K): [string, unknown[]][] => {
    const list: BackupList<Statements[K]> | undefined = backupLists[kind];
    const values = statements[kind];
    if (!list || (values.length === 0 && !list.isRequired)) return [];
    return [[list.name, values.map(list.content)]];
  };
  return Object.fromEntries(kinds.flatMap(listed));
}

/** The content of a backup, ready to be sealed. */
export type OpenedBackup = Awaited<ReturnType<typeof openBackup>>;

/**
 * Decrypts and parses a backup, and verifies that each private key belongs to its certificate or request. It writes
 * nothing to the store.
 * @throws OperatorError if the file does not decrypt or is no backup, if it has neither an authority nor a request,
 *   for a certificate that verifiers cannot read, and for a key of another certificate.
 */
export async function openBackup(text: string, key: BackupKey) {
  const parsed = parseBackup(await decrypt(text, key));
  if (!parsed.success) throw notABackup();
  const { writtenAt, trustDomain, authorities, requests = [], tokenKeys = [] } = parsed.data;
  if (authorities.length + requests.length === 0) throw notABackup();
  const statements = statementsIn(parsed.data);
  for (const { roots } of statements.root)
    requireParsing(() => nodeCryptoProvider.requireReadable(...roots));
  return {
    writtenAt,
    trustDomain,
    requests: await Promise.all(requests.map(readRequest)),
    authorities: await Promise.all(authorities.map(openAuthority)),
    tokenKeys: await Promise.all(tokenKeys.map(readTokenKey)),
    statements,
  };
}

/** Parses a backup. @throws OperatorError for a certificate that this code refuses. */
const parseBackup = (text: string) =>
  requireParsing(() => backupSchema.safeParse(jsonIn(text, JsonBounds.unbounded)));

function requireParsing<T>(parse: () => T): T {
  try {
    return parse();
  } catch {
    return refuseContent();
  }
}

const statementsIn = (lists: Readonly<Record<string, unknown>>): StatementLists =>
  Object.fromEntries(
    kinds.map((kind) => [kind, lists[backupLists[kind]?.name ?? ""] ?? []]),
  ) as unknown as StatementLists;

const notABackup = (): OperatorError =>
  new OperatorError("the file decrypts, but it is not a Rampart backup of version 1");

async function decrypt(text: string, key: BackupKey): Promise<string> {
  const decrypter = new Decrypter();
  try {
    if ("passphrase" in key) decrypter.addPassphrase(key.passphrase);
    else decrypter.addIdentity(key.identity);
    return await decrypter.decrypt(armor.decode(text), "text");
  } catch {
    throw new OperatorError(
      "the backup cannot be decrypted: it is damaged, or the passphrase or identity is wrong",
    );
  }
}

/**
 * Seals the content of a backup under the newest KEK. It restores taints, denials and revocations first, so that no
 * authority is back before its taint. Taints that the store already has stay: each is a record of its own. An authority
 * that it has is replaced. Token keys may be left out, see {@link restoredTokenKeys}.
 * @throws OperatorError for a backup of another trust domain.
 */
export async function restoreBackup(session: Session, backup: OpenedBackup): Promise<void> {
  const { mint } = session;
  if (backup.trustDomain !== mint.trustDomain) {
    throw new OperatorError(
      `the backup is of trust domain ${backup.trustDomain}, not ${mint.trustDomain}`,
    );
  }
  for (const kind of kinds) {
    for (const value of backup.statements[kind]) await Mint.storeStatement(mint, kind, value);
  }
  for (const authority of backup.authorities) {
    await Mint.storeRecord(mint, await AuthorityRecord.seal(authority, mint));
  }
  for (const { extractablePrivateKey: key, ...request } of backup.requests) {
    await Mint.storeRecord(mint, await KeyedStatement.seal("request", request, key, mint));
  }
  const store = await Session.open(session);
  for (const { key, extractablePrivateKey } of restoredTokenKeys(
    backup.tokenKeys,
    store,
    session.now,
  )) {
    await Mint.storeRecord(
      mint,
      await KeyedStatement.seal("tokenKey", key, extractablePrivateKey, mint),
    );
  }
}
