import * as z from "zod/mini";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { instant, RecordError } from "./authority-record.ts";
import type { StoredRecord } from "./authority-store.ts";
import type { KekRing } from "./kek.ts";
import { contentId, openStatement, type StatementContent, sealStatement } from "./statement.ts";

/** An operator's statement that nobody of a description gets a certificate. */
export interface DenialContent {
  /** The description, such as `ns/foo/sa/*` or `node/worker-3`. */
  readonly subject: string;
  /** When every reader of the store knows of the denial. */
  readonly knownFrom: Date;
  readonly until?: Date | undefined;
  /** A sentence for other operators. */
  readonly why?: string | undefined;
}

/** The form of a denial in a statement and in a backup. */
export const denialForm: z.ZodMiniType<DenialContent, DenialJson> = z.strictObject({
  subject: z.string(),
  knownFrom: instant,
  until: z.optional(instant),
  why: z.optional(z.string()),
});

interface DenialJson {
  readonly subject: string;
  readonly knownFrom: string;
  readonly until?: string | undefined;
  readonly why?: string | undefined;
}

/** A denial as the content of a statement. */
export function denialContent({
  subject,
  knownFrom,
  until,
  why,
}: DenialContent): StatementContent & DenialJson {
  return {
    subject,
    knownFrom: knownFrom.toISOString(),
    ...(until && { until: until.toISOString() }),
    ...(why !== undefined && { why }),
  };
}

/** Seals a denial as a statement. Its record is named by its content. */
export async function sealDenial(
  denial: DenialContent,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  const name = { kind: "denial", id: denialId(denial) } as const;
  return sealStatement(name, denialContent(denial), trustDomain, keks);
}

/** The name of a denial's record: a digest of the content, so that no two denials share a record. */
export const denialId = (denial: DenialContent): string => contentId(denialContent(denial));

/** Opens the statement of a denial. @throws RecordError */
export async function openDenial(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<DenialContent> {
  const says = denialForm.safeParse(await openStatement(stored, trustDomain, keks));
  if (!says.success) throw new RecordError("form", "not the statement of a denial");
  if (denialId(says.data) === stored.id) return says.data;
  throw new RecordError("id", "stored under another denial's name");
}
