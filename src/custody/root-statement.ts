import * as z from "zod/mini";
import { CaError } from "../foundation/errors.ts";
import { type AdditionalRoot, createAdditionalRoot } from "../pki/authority/trust-bundle.ts";
import { toBase64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { instant, octets, RecordError } from "./authority-record.ts";
import type { StoredRecord } from "./authority-store.ts";
import type { KekRing } from "./kek.ts";
import { openStatement, type StatementContent, sealStatement } from "./statement.ts";

/** The content of the statement of an additional root. */
export const rootForm: z.ZodMiniType<
  { readonly certificate: Bytes; readonly publishedFrom: Date },
  RootContent
> = z.strictObject({ certificate: octets, publishedFrom: instant });

/** {@link rootForm} as JSON. */
export interface RootContent extends StatementContent {
  readonly certificate: string;
  readonly publishedFrom: string;
}

/** An additional root as the content of a statement. */
export function rootContent({ roots: [certificate], schedule }: AdditionalRoot): RootContent {
  return {
    certificate: toBase64(certificate),
    publishedFrom: schedule.publishedFrom.toISOString(),
  };
}

/** Seals an additional root as a statement. */
export async function sealRoot(
  root: AdditionalRoot,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  return sealStatement({ kind: "root", id: root.id }, rootContent(root), trustDomain, keks);
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
