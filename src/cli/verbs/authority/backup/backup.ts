import { armor, Decrypter, Encrypter } from "age-encryption";
import * as z from "zod/mini";
import { storeAuthority, storeRecord } from "../../../../ca/mint.ts";
import { authorityFields, instant, octets } from "../../../../custody/authority-record.ts";
import {
  type DenialContent,
  denialContent,
  denialForm,
  sealDenial,
} from "../../../../custody/denial-statement.ts";
import { sealRequest } from "../../../../custody/request-record.ts";
import {
  type RevocationContent,
  revocationContent,
  revocationForm,
  sealRevocation,
} from "../../../../custody/revocation-statement.ts";
import { rootContent, rootForm, sealRoot } from "../../../../custody/root-statement.ts";
import { openExtractable } from "../../../../custody/seal.ts";
import { sealTaint } from "../../../../custody/taint-statement.ts";
import { OperatorError } from "../../../../foundation/errors.ts";
import type { NewAuthority } from "../../../../pki/authority/new-authority.ts";
import type { Taint } from "../../../../pki/authority/taint.ts";
import type { AdditionalRoot } from "../../../../pki/authority/trust-bundle.ts";
import { toBase64 } from "../../../../pki/encoding/base64.ts";
import { openStore, requireAllOpen, type Session } from "../../../session/session.ts";
import { openAuthority, readRoot, refuseContent } from "./backup-authority.ts";
import {
  type RestoredRequest,
  readRequest,
  requestContent,
  requestForm,
} from "./backup-request.ts";

/** An identifier becomes part of a record's name in the store. */
const identifier = z.string().check(z.regex(/^[0-9a-f]{2,256}$/));

const authorityForm = z.strictObject({
  ...authorityFields,
  /** PKCS#8. */
  privateKey: octets,
});
const taintForm = z.strictObject({ id: identifier, taintedAt: instant, retiresAt: instant });

const backupForm = z.strictObject({
  format: z.literal("rampart backup"),
  version: z.literal(1),
  /** Older backups lack it. */
  writtenAt: z.optional(instant),
  trustDomain: z.string(),
  authorities: z.array(authorityForm).check(z.maxLength(100)),
  additionalRoots: z.array(rootForm).check(z.maxLength(100)),
  taints: z.array(taintForm).check(z.maxLength(100)),
  /** Absent where nobody is denied, so that older versions can restore the backup. */
  denials: z.optional(z.array(denialForm).check(z.maxLength(500))),
  /** Absent where none is open, for the same reason. */
  requests: z.optional(z.array(requestForm).check(z.minLength(1), z.maxLength(100))),
  /** Absent where nothing is revoked. */
  revocations: z.optional(z.array(revocationForm).check(z.maxLength(500))),
});

type BackupJson = z.input<typeof backupForm>;

/** A backup is encrypted under a passphrase (scrypt), or to age recipients. */
export type BackupLock =
  | { readonly passphrase: string }
  | { readonly recipients: readonly string[] };

/** A backup is decrypted with its passphrase, or with one of its age identities. */
export type BackupKey = { readonly passphrase: string } | { readonly identity: string };

/**
 * Everything in the store, with its keys, as armoured age (age-encryption.org/v1): `age -d` decrypts it
 * without this program. The backup does not depend on the KEKs.
 *
 * @throws OperatorError when a record does not open: a backup holds every record.
 */
export async function writeBackup(session: Session, lock: BackupLock): Promise<string> {
  const content = JSON.stringify(await collect(session));
  const encrypter = new Encrypter();
  if ("passphrase" in lock) encrypter.setPassphrase(lock.passphrase);
  else for (const recipient of lock.recipients) addRecipient(encrypter, recipient);
  return armor.encode(await encrypter.encrypt(content));
}

function addRecipient(encrypter: Encrypter, recipient: string): void {
  try {
    encrypter.addRecipient(recipient);
  } catch {
    throw new OperatorError("a recipient is not an age public key (age1…)");
  }
}

async function collect(session: Session): Promise<BackupJson> {
  const { store, trustDomain, keks } = session.mint;
  const opened = await openStore(session);
  requireAllOpen(opened);
  const { additionalRoots, taints, storedTaints, denials, revocations } = opened;
  const requests = await Promise.all(opened.requests.map((each) => requestContent(session, each)));
  const records = (await store.load()).filter(({ kind }) => kind === "authority");
  const authorities = await Promise.all(
    records.map(async (record) => toJson(await openExtractable(record, trustDomain, keks))),
  );
  if (authorities.length + requests.length === 0) {
    throw new OperatorError("the store holds no authority");
  }
  return {
    format: "rampart backup",
    version: 1,
    writtenAt: session.now.toISOString(),
    trustDomain,
    authorities,
    additionalRoots: additionalRoots.map(rootContent),
    // The backup must not lack a taint that the configuration alone states, and that has no instant.
    taints: taints.map((taint) => toTaintJson(taint, !storedTaints.includes(taint), session.now)),
    ...(denials.length > 0 && { denials: denials.map(denialContent) }),
    ...(requests.length > 0 && { requests }),
    ...(revocations.length > 0 && { revocations: revocations.map(revocationContent) }),
  };
}

function toTaintJson(
  { id, taintedAt, retiresAt }: Taint,
  isConfigured: boolean,
  now: Date,
): BackupJson["taints"][number] {
  const since = isConfigured ? now : taintedAt;
  return { id, taintedAt: since.toISOString(), retiresAt: retiresAt.toISOString() };
}

async function toJson({
  authority,
  extractablePrivateKey,
}: NewAuthority): Promise<BackupJson["authorities"][number]> {
  const { publishedFrom, signsFrom, signsUntil, retiresAt } = authority.schedule;
  const privateKey = await crypto.subtle.exportKey("pkcs8", extractablePrivateKey);
  return {
    schedule: {
      publishedFrom: publishedFrom.toISOString(),
      signsFrom: signsFrom.toISOString(),
      signsUntil: signsUntil.toISOString(),
      retiresAt: retiresAt.toISOString(),
    },
    certificate: toBase64(authority.certificate.der),
    intermediates: authority.intermediates.map(toBase64),
    roots: authority.roots.map(toBase64),
    privateKey: toBase64(new Uint8Array(privateKey)),
  };
}

/** The content of a backup, ready to be sealed. */
export interface OpenedBackup {
  readonly writtenAt: Date | undefined;
  readonly trustDomain: string;
  readonly authorities: readonly NewAuthority[];
  readonly additionalRoots: readonly AdditionalRoot[];
  readonly taints: readonly Taint[];
  readonly denials: readonly DenialContent[];
  readonly requests: readonly RestoredRequest[];
  readonly revocations: readonly RevocationContent[];
}

/**
 * @throws OperatorError for a file that does not decrypt or is no backup. For a certificate that no
 *   verifier reads, and for a key of another certificate.
 */
export async function openBackup(text: string, key: BackupKey): Promise<OpenedBackup> {
  const parsed = backupForm.safeParse(parseJson(await decrypt(text, key)));
  if (!parsed.success) throw notABackup();
  const { writtenAt, trustDomain, taints, additionalRoots, authorities } = parsed.data;
  const { denials = [], requests = [], revocations = [] } = parsed.data;
  if (authorities.length + requests.length === 0) throw notABackup();
  return {
    writtenAt,
    trustDomain,
    taints,
    denials,
    requests: await Promise.all(requests.map(readRequest)),
    revocations,
    authorities: await Promise.all(authorities.map(openAuthority)),
    additionalRoots: await Promise.all(additionalRoots.map(readRoot)).catch(refuseContent),
  };
}

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

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Seals the content of a backup under the newest KEK. It restores taints, denials and revocations first, so that no authority
 * is back before its taint. Taints that the store already has stay: each is a record of its own.
 */
export async function restoreBackup(session: Session, backup: OpenedBackup): Promise<void> {
  const { mint } = session;
  const { trustDomain, keks } = mint;
  if (backup.trustDomain !== trustDomain) {
    throw new OperatorError(
      `the backup is of trust domain ${backup.trustDomain}, not ${trustDomain}`,
    );
  }
  for (const taint of backup.taints) {
    await storeRecord(mint, await sealTaint(taint, trustDomain, keks));
  }
  for (const denial of backup.denials) {
    await storeRecord(mint, await sealDenial(denial, trustDomain, keks));
  }
  for (const revocation of backup.revocations) {
    await storeRecord(mint, await sealRevocation(revocation, trustDomain, keks));
  }
  for (const root of backup.additionalRoots) {
    await storeRecord(mint, await sealRoot(root, trustDomain, keks));
  }
  for (const authority of backup.authorities) {
    await storeAuthority(mint, authority);
  }
  for (const request of backup.requests) {
    await storeRecord(mint, await sealRequest(request, request.requestedAt, trustDomain, keks));
  }
}
