import { type Bytes, bytesEqual, fromHexLiteral } from "./bytes.ts";
import {
  type CertificateExtensions,
  noExtensions,
  readExtensions,
} from "./certificate-extensions.ts";
import { DerError, DerReader, Tag } from "./der-reader.ts";
import type { Validity } from "./validity.ts";

/**
 * A TBSCertificate, taken apart and not interpreted (RFC 5280 §4.1). Old roots are of version 1,
 * which has no extensions; every verifier takes them as trust anchors.
 */
export interface ToBeSigned {
  readonly version: 1 | 3;
  /** Content octets of the INTEGER. */
  readonly serialNumber: Bytes;
  readonly signatureAlgorithm: Bytes;
  readonly issuer: Bytes;
  readonly validity: Validity;
  readonly subject: Bytes;
  readonly spki: Bytes;
  readonly extensions: CertificateExtensions;
}

/** A certificate with the parts that issuing and publishing need. */
export interface Certificate {
  readonly der: Bytes;
  readonly toBeSigned: ToBeSigned;
}

/** `[0] EXPLICIT INTEGER 2`, which stands for version 3 (RFC 5280 §4.1.2.1). */
export const version3: Bytes = fromHexLiteral("a003020102");

/** @throws DerError for what is not a certificate of version 1 or 3 in DER. */
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

/** @throws DerError for what is not a TBSCertificate of version 1 or 3 in DER, or carries unique identifiers. */
export function parseToBeSigned(der: Bytes): ToBeSigned {
  const outer = new DerReader(der);
  const fields = outer.enter(Tag.sequence);
  outer.finish();
  // Version 1 is the default, which DER leaves out: the serial number comes first (X.690 §11.5).
  const version = fields.nextIs(Tag.integer) ? 1 : 3;
  if (version === 3) fields.literal(version3);
  const parts: ToBeSigned = {
    version,
    serialNumber: fields.content(Tag.integer),
    signatureAlgorithm: fields.element(Tag.sequence),
    issuer: fields.element(Tag.sequence),
    validity: readValidity(fields),
    subject: fields.element(Tag.sequence),
    spki: fields.element(Tag.sequence),
    extensions: version === 3 ? readExtensions(fields) : noExtensions,
  };
  fields.finish();
  return parts;
}

/** @throws DerError for times that are not spelled as RFC 5280 §4.1.2.5 wants them. */
export function readValidity(fields: DerReader): Validity {
  const times = fields.enter(Tag.sequence);
  const validity = { notBefore: parseTime(times), notAfter: parseTime(times) };
  times.finish();
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
  const isDay = month >= 0 && month < 12 && instant.getUTCDate() === day;
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
