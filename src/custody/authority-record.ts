import * as z from "zod/mini";
import { parsedText } from "../foundation/text.ts";
import type { Schedule } from "../pki/authority/schedule.ts";
import type { AuthorityCertificates } from "../pki/authority/signing-authority.ts";
import { parseBase64, toBase64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";

/** The version of the records that this code writes, and the only one that it opens. */
export const recordVersion = 1;

/**
 * A record that does not open, and the check that it failed. It is a fault of the store, never of a
 * caller.
 */
export class RecordError extends Error {
  override readonly name = "RecordError";
  readonly check: "form" | "version" | "id" | "trust-domain" | "kek" | "seal" | "certificate";

  constructor(check: RecordError["check"], detail: string, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.check = check;
  }
}

const maximumRecordLength = 256 * 1024;

/** Octets as a field of a record: base64. */
export const octets: z.ZodMiniType<Bytes, string> = parsedText(parseBase64, "not base64");

/** An instant as a field of a record: RFC 3339 with milliseconds, UTC. */
export const instant: z.ZodMiniType<Date, string> = z.pipe(
  z.iso.datetime({ precision: 3 }),
  z.transform((text) => new Date(text)),
);

/** A schedule as a field of a record. */
const scheduleForm: z.ZodMiniType<Schedule> = z.strictObject({
  publishedFrom: instant,
  signsFrom: instant,
  signsUntil: instant,
  retiresAt: instant,
});

/** The public part of an authority as fields of a record or a backup. */
export const authorityFields: {
  readonly schedule: typeof scheduleForm;
  readonly certificate: typeof octets;
  readonly intermediates: z.ZodMiniArray<typeof octets>;
  readonly roots: z.ZodMiniArray<typeof octets>;
} = {
  schedule: scheduleForm,
  certificate: octets,
  intermediates: z.array(octets).check(z.maxLength(8)),
  roots: z.array(octets).check(z.minLength(1), z.maxLength(8)),
};

const recordForm = z.strictObject({
  version: z.literal(recordVersion),
  id: z.string(),
  trustDomain: z.string(),
  kek: z.string(),
  ...authorityFields,
  iv: octets,
  sealedKey: octets,
});

/** The fields of a record in the clear. The seal on the key authenticates all of them. */
export interface AuthorityRecordHead extends AuthorityCertificates {
  readonly id: string;
  readonly trustDomain: string;
  readonly kek: string;
  readonly schedule: Schedule;
}

/** The record of one authority, with its private key (PKCS#8) sealed under a KEK. */
export interface AuthorityRecord extends AuthorityRecordHead {
  readonly iv: Bytes;
  readonly sealedKey: Bytes;
}

/**
 * Parses the record of an authority. It does not open the seal.
 *
 * @throws RecordError `form` or `version`.
 */
export function parseAuthorityRecord(value: string): AuthorityRecord {
  const json = value.length <= maximumRecordLength ? parseJson(value) : undefined;
  const version = z.object({ version: z.number() }).safeParse(json);
  if (version.success && version.data.version !== recordVersion) {
    throw new RecordError("version", `version ${version.data.version}, not ${recordVersion}`);
  }
  const parsed = recordForm.safeParse(json);
  if (parsed.success) return requireCanonical(parsed.data, value);
  const field = parsed.error.issues[0]?.path.join(".");
  throw new RecordError("form", `not a record of an authority: ${field || "not JSON"}`);
}

/** This code writes a record in one way only, so another text of the same record comes from elsewhere. */
function requireCanonical(record: AuthorityRecord, value: string): AuthorityRecord {
  if (formatAuthorityRecord(record) === value) return record;
  throw new RecordError("form", "not spelled as it was sealed");
}

/** @throws RecordError `form`. */
export function parseJson(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch (error) {
    throw new RecordError("form", "not JSON", error);
  }
}

/** The canonical text of a record. */
export function formatAuthorityRecord(record: AuthorityRecord): string {
  return JSON.stringify({
    version: recordVersion,
    ...headAsJson(record),
    iv: toBase64(record.iv),
    sealedKey: toBase64(record.sealedKey),
  });
}

/**
 * The associated data of the seal: the purpose, the version, and every field in the clear. Two records
 * that differ in one of them differ here, because JSON is unambiguous and the order of fields is fixed.
 */
export function associatedData(head: AuthorityRecordHead): Bytes {
  const bound = ["rampart authority key", recordVersion, headAsJson(head)];
  return new TextEncoder().encode(JSON.stringify(bound)) as Bytes;
}

function headAsJson(head: AuthorityRecordHead): Record<string, unknown> {
  const { publishedFrom, signsFrom, signsUntil, retiresAt } = head.schedule;
  return {
    id: head.id,
    trustDomain: head.trustDomain,
    kek: head.kek,
    schedule: { publishedFrom, signsFrom, signsUntil, retiresAt },
    certificate: toBase64(head.certificate),
    intermediates: head.intermediates.map(toBase64),
    roots: head.roots.map(toBase64),
  };
}
