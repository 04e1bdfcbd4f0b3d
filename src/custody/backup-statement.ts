import * as z from "zod/mini";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { instant, RecordError } from "./authority-record.ts";
import type { RecordName, StoredRecord } from "./authority-store.ts";
import type { KekRing } from "./kek.ts";
import { openStatement, sealStatement } from "./statement.ts";

/** The statement that somebody made a backup of the whole store. */
export interface BackupContent {
  readonly madeAt: Date;
}

const backupForm = z.strictObject({ madeAt: instant });

/** A store has one such record: the last backup is the one that counts. */
export const backupRecord: RecordName & { readonly kind: "backup" } = { kind: "backup", id: "00" };

/** Seals the date of a backup as a statement. */
export async function sealBackup(
  { madeAt }: BackupContent,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  return sealStatement(backupRecord, { madeAt: madeAt.toISOString() }, trustDomain, keks);
}

/** Opens the date of a backup. @throws RecordError */
export async function openBackupDate(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<BackupContent> {
  const says = backupForm.safeParse(await openStatement(stored, trustDomain, keks));
  if (!says.success) throw new RecordError("form", "not the date of a backup");
  if (stored.id === backupRecord.id) return says.data;
  throw new RecordError("id", "stored under another name");
}
