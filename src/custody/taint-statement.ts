import * as z from "zod/mini";
import type { Taint } from "../pki/authority/taint.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { instant, RecordError } from "./authority-record.ts";
import type { RecordName, StoredRecord } from "./authority-store.ts";
import type { KekRing } from "./kek.ts";
import { openStatement, sealStatement } from "./statement.ts";

const taintForm = z.strictObject({ subject: z.string(), taintedAt: instant, retiresAt: instant });

/**
 * Seals a taint as a statement. The name of the record repeats its content, so a stricter taint is a second
 * record. A writer that has not seen that record cannot overwrite it.
 */
export async function sealTaint(
  taint: Taint,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  const { id: subject, taintedAt, retiresAt } = taint;
  const says = {
    subject,
    taintedAt: taintedAt.toISOString(),
    retiresAt: retiresAt.toISOString(),
  };
  return sealStatement({ kind: "taint", id: nameOf(taint) }, says, trustDomain, keks);
}

function nameOf({ id, taintedAt, retiresAt }: Taint): string {
  return [id, taintedAt.getTime(), retiresAt.getTime()].join("-");
}

/**
 * The id of the authority or root that a taint is about, read from the name of its record. The name
 * proves nothing until the record opens.
 */
export function taintedSubject({ id }: RecordName): string {
  return id.split("-", 1)[0] ?? id;
}

/** Opens the statement of a taint. @throws RecordError */
export async function openTaint(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<Taint> {
  const says = taintForm.safeParse(await openStatement(stored, trustDomain, keks));
  if (!says.success) throw new RecordError("form", "not the statement of a taint");
  const { subject: id, taintedAt, retiresAt } = says.data;
  const taint = { id, taintedAt, retiresAt };
  if (nameOf(taint) === stored.id) return taint;
  throw new RecordError("id", "stored under another taint's name");
}
