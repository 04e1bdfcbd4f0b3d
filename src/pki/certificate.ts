import { type Bytes, bytesEqual, fromHexLiteral } from "./bytes.ts";
import { DerError, DerReader, Tag } from "./der-reader.ts";
import type { Validity } from "./validity.ts";

/** One extension of a certificate, its value unread. */
export interface Extension {
  /** The whole OBJECT IDENTIFIER. */
  readonly oid: Bytes;
  readonly isCritical: boolean;
  /** The DER inside the OCTET STRING. */
  readonly value: Bytes;
}

/** A TBSCertificate of version 3, taken apart and not interpreted (RFC 5280 §4.1). */
export interface ToBeSigned {
  /** Content octets of the INTEGER. */
  readonly serialNumber: Bytes;
  readonly signatureAlgorithm: Bytes;
  readonly issuer: Bytes;
  readonly validity: Validity;
  readonly subject: Bytes;
  readonly spki: Bytes;
  /** In their order; none comes twice. */
  readonly extensions: readonly Extension[];
}

/** A certificate with the parts that issuing and publishing need. */
export interface Certificate {
  readonly der: Bytes;
  readonly toBeSigned: ToBeSigned;
}

const version3 = fromHexLiteral("a003020102");
const criticalTrue = fromHexLiteral("0101ff");

/** @throws DerError for what is not a certificate of version 3 in DER. */
export function parseCertificate(der: Bytes): Certificate {
  const outer = new DerReader(der);
  const fields = outer.enter(Tag.sequence);
  outer.finish();
  const toBeSigned = parseToBeSigned(fields.element(Tag.sequence));
  const algorithm = fields.element(Tag.sequence);
  fields.bitStringOctets();
  fields.finish();
  if (!bytesEqual(algorithm, toBeSigned.signatureAlgorithm)) {
    throw new DerError("the signature algorithm differs inside and outside (RFC 5280 §4.1.1.2)");
  }
  return { der, toBeSigned };
}

/** @throws DerError for what is not a TBSCertificate of version 3 in DER, or carries unique identifiers. */
export function parseToBeSigned(der: Bytes): ToBeSigned {
  const outer = new DerReader(der);
  const fields = outer.enter(Tag.sequence);
  outer.finish();
  fields.literal(version3);
  const parts = {
    serialNumber: fields.content(Tag.integer),
    signatureAlgorithm: fields.element(Tag.sequence),
    issuer: fields.element(Tag.sequence),
    validity: parseValidity(fields.enter(Tag.sequence)),
    subject: fields.element(Tag.sequence),
    spki: fields.element(Tag.sequence),
    extensions: parseExtensions(fields.enter(Tag.contextConstructed(3))),
  };
  fields.finish();
  return parts;
}

function parseValidity(fields: DerReader): Validity {
  const validity = { notBefore: parseTime(fields), notAfter: parseTime(fields) };
  fields.finish();
  return validity;
}

/** RFC 5280 §4.1.2.5: UTCTime to 2049, GeneralizedTime from 2050, seconds, Z. */
function parseTime(fields: DerReader): Date {
  const isUtcTime = fields.nextIs(Tag.utcTime);
  const digits = fields.content(isUtcTime ? Tag.utcTime : Tag.generalizedTime);
  if (digits.length !== (isUtcTime ? 13 : 15) || digits.at(-1) !== zulu) throw notATime();
  const begin = isUtcTime ? 2 : 4;
  const yearOfCentury = pairAt(digits, begin - 2);
  const century = isUtcTime ? (yearOfCentury < 50 ? 20 : 19) : pairAt(digits, 0);
  const year = century * 100 + yearOfCentury;
  const month = pairAt(digits, begin) - 1;
  const day = pairAt(digits, begin + 2);
  const hour = pairAt(digits, begin + 4);
  const minute = pairAt(digits, begin + 6);
  const second = pairAt(digits, begin + 8);
  const instant = new Date(Date.UTC(year, month, day, hour, minute, second));
  // What Date turned into another day was none; and GeneralizedTime begins in 2050.
  const isDay = instant.getUTCMonth() === month && instant.getUTCDate() === day;
  const isTime = hour < 24 && minute < 60 && second < 60;
  if (!isDay || !isTime || (!isUtcTime && year < 2050)) throw notATime();
  return instant;
}

const zulu = 0x5a;

function pairAt(digits: Bytes, i: number): number {
  const tens = (digits[i] ?? 0) - 0x30;
  const ones = (digits[i + 1] ?? 0) - 0x30;
  if (tens < 0 || tens > 9 || ones < 0 || ones > 9) throw notATime();
  return tens * 10 + ones;
}

function notATime(): DerError {
  return new DerError("not a time of RFC 5280 §4.1.2.5");
}

function parseExtensions(wrapper: DerReader): readonly Extension[] {
  const list = wrapper.enter(Tag.sequence);
  wrapper.finish();
  const extensions: Extension[] = [];
  while (!list.isDone) {
    const fields = list.enter(Tag.sequence);
    const oid = fields.element(Tag.objectIdentifier);
    const isCritical = fields.nextIs(Tag.boolean);
    if (isCritical) fields.literal(criticalTrue);
    const value = fields.content(Tag.octetString);
    fields.finish();
    if (findExtension(extensions, oid)) throw new DerError("an extension twice (RFC 5280 §4.2)");
    extensions.push({ oid, isCritical, value });
  }
  return extensions;
}

/** The extension with this OBJECT IDENTIFIER, if it is there. */
export function findExtension(extensions: readonly Extension[], oid: Bytes): Extension | undefined {
  for (const extension of extensions) if (bytesEqual(extension.oid, oid)) return extension;
  return undefined;
}
