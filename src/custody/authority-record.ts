import * as z from "zod/mini";
import { parsedText } from "../foundation/parsed-text.ts";
import type { Schedule } from "../pki/authority/schedule.ts";
import type { AuthorityCertificates } from "../pki/authority/signing-authority.ts";
import { parseBase64, toBase64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";

/** The only version of records that this code writes and opens. */
export const recordVersion = 1;

/** A record's refusal to open, and the check that refused it. A fault of the store, never a caller's. */
export class RecordError extends Error {
  override readonly name = "RecordError";
  readonly check: "form" | "version" | "id" | "trust-domain" | "kek" | "seal" | "certificate";

  constructor(check: RecordError["check"], detail: string, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.check = check;
  }
}

const maximumRecordLength = 256 * 1024;

/** Octets as records spell them. */
export const octets: z.ZodMiniType<Bytes, string> = parsedText(parseBase64, "not base64");

/** An instant as records spell it. */
export const instant: z.ZodMiniType<Date, string> = z.pipe(
  z.iso.datetime({ precision: 3 }),
  z.transform((text) => new Date(text)),
);

/** A schedule as records spell it. */
export const scheduleForm: z.ZodMiniType<Schedule> = z.strictObject({
  publishedFrom: instant,
  signsFrom: instant,
  signsUntil: instant,
  retiresAt: instant,
});

const recordForm = z.strictObject({
  version: z.literal(recordVersion),
  id: z.string(),
  trustDomain: z.string(),
  kek: z.string(),
  schedule: scheduleForm,
  certificate: octets,
  intermediates: z.array(octets).check(z.maxLength(8)),
  roots: z.array(octets).check(z.minLength(1), z.maxLength(8)),
  iv: octets,
  sealedKey: octets,
});

/** What a record says in the clear: all of it authenticated by the seal on the key. */
export interface AuthorityRecordHead extends AuthorityCertificates {
  readonly id: string;
  readonly trustDomain: string;
  readonly kek: string;
  readonly schedule: Schedule;
}

/** The record of one authority: what it says, and its private key (PKCS#8) under the KEK. */
export interface AuthorityRecord extends AuthorityRecordHead {
  readonly iv: Bytes;
  readonly sealedKey: Bytes;
}

/** @throws RecordError `form` or `version`. */
export function parseAuthorityRecord(value: string): AuthorityRecord {
  const json = value.length <= maximumRecordLength ? parseJson(value) : undefined;
  const version = z.object({ version: z.number() }).safeParse(json);
  if (version.success && version.data.version !== recordVersion) {
    throw new RecordError("version", `version ${version.data.version}, not ${recordVersion}`);
  }
  const parsed = recordForm.safeParse(json);
  if (parsed.success) return inItsOneSpelling(parsed.data, value);
  const field = parsed.error.issues[0]?.path.join(".");
  throw new RecordError("form", `not a record of an authority: ${field || "not JSON"}`);
}

/** What spells the same record in another way was not written by this code. */
function inItsOneSpelling(record: AuthorityRecord, value: string): AuthorityRecord {
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

/** The record as text, the same for the same record. */
export function formatAuthorityRecord(record: AuthorityRecord): string {
  return JSON.stringify({
    version: recordVersion,
    ...headAsJson(record),
    iv: toBase64(record.iv),
    sealedKey: toBase64(record.sealedKey),
  });
}

/**
 * What the seal binds the key to: the purpose, the version, and every field in the clear. Two records
 * that differ in any of them have different bytes here, because JSON is unambiguous and the fields
 * come in one order.
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
