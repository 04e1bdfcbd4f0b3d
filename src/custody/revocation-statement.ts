import * as z from "zod/mini";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { type RevocationReason, reasonCodes } from "../pki/x509/crl/crl-to-be-signed.ts";
import { instant, RecordError } from "./authority-record.ts";
import type { StoredRecord } from "./authority-store.ts";
import type { KekRing } from "./kek.ts";
import { contentId, openStatement, type StatementContent, sealStatement } from "./statement.ts";

/** An operator's statement that certificates of one authority count no more, although they are valid. */
export interface RevocationContent {
  /** The id of the authority that signed them. */
  readonly authority: string;
  /** In whole seconds. */
  readonly revokedAt: Date;
  /** When every reader of the store knows of it. */
  readonly knownFrom: Date;
  readonly reason: RevocationReason;
  /** A sentence for other operators. */
  readonly why?: string | undefined;
  /**
   * The serial numbers (content octets in hexadecimal), each with the end of its certificate's validity in
   * seconds since 1970.
   */
  readonly certificates: ReadonlyMap<string, number>;
}

/**
 * The most certificates of one statement. A statement has many, so that a store needs few records; this
 * many fit into a record even with the longest serial numbers.
 */
export const maximumCertificates = 4000;

/** A positive INTEGER of at most 20 octets in DER (RFC 5280 §4.1.2.2). */
const serialForm = /^(?=.{2,40}$)(?:00[89a-f][0-9a-f]|[1-7][0-9a-f]|0[1-9a-f])(?:[0-9a-f]{2})*$/;

/** Whether this is a serial number as statements spell it. */
export const isSerialNumber = (text: string): boolean => serialForm.test(text);

const certificates: z.ZodMiniType<ReadonlyMap<string, number>, string> = z.pipe(
  z.string().check(z.regex(/^[0-9a-f]+:\d{1,12}(?:,[0-9a-f]+:\d{1,12})*$/)),
  z.transform((text, context) => {
    const list = text.split(",").map((each) => each.split(":", 2));
    const found = new Map(list.map(([serial = "", end]) => [serial, Number(end)]));
    if (found.size === list.length && [...found.keys()].every(isSerialNumber)) return found;
    context.issues.push({ code: "custom", input: text, message: "a serial number" });
    return z.NEVER;
  }),
);

/** The form of a revocation in a statement and in a backup. */
export const revocationForm: z.ZodMiniType<RevocationContent, RevocationJson> = z.strictObject({
  authority: z.string().check(z.regex(/^[0-9a-f]{2,64}$/)),
  revokedAt: instant,
  knownFrom: instant,
  reason: z.enum(Object.keys(reasonCodes) as [RevocationReason, ...RevocationReason[]]),
  why: z.optional(z.string()),
  certificates,
});

interface RevocationJson {
  readonly authority: string;
  readonly revokedAt: string;
  readonly knownFrom: string;
  readonly reason: RevocationReason;
  readonly why?: string | undefined;
  readonly certificates: string;
}

/** A revocation as the content of a statement. */
export function revocationContent(
  revocation: RevocationContent,
): StatementContent & RevocationJson {
  const { authority, revokedAt, knownFrom, reason, why } = revocation;
  return {
    authority,
    revokedAt: revokedAt.toISOString(),
    knownFrom: knownFrom.toISOString(),
    reason,
    ...(why !== undefined && { why }),
    certificates: [...revocation.certificates].map((each) => each.join(":")).join(","),
  };
}

/** Seals a revocation as a statement. Its record is named by its content. */
export async function sealRevocation(
  revocation: RevocationContent,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  const content = revocationContent(revocation);
  return sealStatement({ kind: "revocation", id: contentId(content) }, content, trustDomain, keks);
}

/** The name of a revocation's record: a digest of the content, so that no two share a record. */
export const revocationId = (revocation: RevocationContent): string =>
  contentId(revocationContent(revocation));

/** Opens the statement of a revocation. @throws RecordError */
export async function openRevocation(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<RevocationContent> {
  const content = await openStatement(stored, trustDomain, keks);
  const says = revocationForm.safeParse(content);
  if (!says.success) throw new RecordError("form", "not the statement of a revocation");
  if (revocationId(says.data) === stored.id) return says.data;
  throw new RecordError("id", "stored under another revocation's name");
}
