import * as z from "zod/mini";
import { CaError } from "../foundation/errors.ts";
import { type AdditionalRoot, createAdditionalRoot } from "../pki/authority/additional-root.ts";
import { toBase64 } from "../pki/encoding/base64.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { instant, octets, RecordError } from "./authority-record.ts";
import type { StoredRecord } from "./authority-store.ts";
import type { KekRing } from "./kek.ts";
import { openStatement, type StatementContent, sealStatement } from "./statement.ts";

const rootForm = z.strictObject({ certificate: octets, publishedFrom: instant });

/** Seals an additional root as a statement. */
export async function sealRoot(
  { id, roots: [certificate], schedule }: AdditionalRoot,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  const says = {
    certificate: toBase64(certificate),
    publishedFrom: schedule.publishedFrom.toISOString(),
  };
  return sealStatement({ kind: "root", id }, says, trustDomain, keks);
}

/** Opens the statement of an additional root. @throws RecordError */
export async function openRoot(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<AdditionalRoot> {
  const root = await rootOf(await openStatement(stored, trustDomain, keks));
  if (root.id === stored.id) return root;
  throw new RecordError("id", "stored under another root's id");
}

async function rootOf(content: StatementContent): Promise<AdditionalRoot> {
  const says = rootForm.safeParse(content);
  if (!says.success) throw new RecordError("form", "not the statement of a root");
  try {
    return await createAdditionalRoot(says.data.certificate, says.data.publishedFrom);
  } catch (error) {
    if (!(error instanceof DerError || error instanceof CaError)) throw error;
    throw new RecordError("certificate", error.message, error);
  }
}
