import * as z from "zod";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import type { Taint } from "../pki/taint.ts";
import { instant, RecordError } from "./authority-record.ts";
import type { StoredRecord } from "./authority-store.ts";
import type { KekRing } from "./kek.ts";
import { openStatement, sealStatement } from "./statement.ts";

const taintForm = z.strictObject({ taintedAt: instant, retiresAt: instant });

/** The record of a taint, under the id of what is tainted. */
export async function sealTaint(
  { id, taintedAt, retiresAt }: Taint,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  const says = { taintedAt: taintedAt.toISOString(), retiresAt: retiresAt.toISOString() };
  return sealStatement({ kind: "taint", id }, says, trustDomain, keks);
}

/** @throws RecordError */
export async function openTaint(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<Taint> {
  const says = taintForm.safeParse(await openStatement(stored, trustDomain, keks));
  if (says.success) return { id: stored.id, ...says.data };
  throw new RecordError("form", "not the statement of a taint");
}
