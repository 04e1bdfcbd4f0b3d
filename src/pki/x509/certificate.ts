import { Bytes, Hex } from "../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../encoding/der-reader.ts";
import {
  type CertificateExtensions,
  noExtensions,
  readExtensions,
} from "./certificate-extensions.ts";
import type { Validity } from "./validity.ts";

/**
 * The fields of a TBSCertificate (RFC 5280 §4.1), not interpreted. Old roots are of version 1, which has
 * no extensions; every verifier accepts them as trust anchors.
 */
interface ToBeSigned {
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

/** A certificate, or another structure that is signed as one: a CRL, a CSR. Nobody has verified its signature. */
export interface Signed {
  /** The whole element that the signature covers. */
  readonly signedBytes: Bytes;
  /** The whole AlgorithmIdentifier. */
  readonly signatureAlgorithm: Bytes;
  /** The octets of the signature in the encoding of X.509. */
  readonly signature: Bytes;
}

/** A certificate with the fields that issuing and publishing need. */
export interface Certificate extends Signed {
  readonly der: Bytes;
  readonly toBeSigned: ToBeSigned;
}

/** Version 3, encoded as `[0] EXPLICIT INTEGER 2` (RFC 5280 §4.1.2.1). */
export const version3: Bytes = Hex.parseLiteral("a003020102");

/** Parses X.509 certificates (RFC 5280 §4.1). */
export const Certificate = {
  /**
   * Reads a certificate of version 1 or 3. It does not verify the signature.
   *
   * @throws DerError for anything else.
   */
  parse(der: Bytes): Certificate {
    const signed = readSigned(der);
    const toBeSigned = parseToBeSigned(signed.signedBytes);
    if (!Bytes.equal(signed.signatureAlgorithm, toBeSigned.signatureAlgorithm)) {
      throw new DerError("the signature algorithm differs inside and outside (RFC 5280 §4.1.1.2)");
    }
    return { der, toBeSigned, ...signed };
  },

  /** The subject key identifier of a certificate. Some imported certificates have none. */
  subjectKeyIdentifier(certificate: Certificate): Bytes | undefined {
    const extension = certificate.toBeSigned.extensions.subjectKeyIdentifier;
    return extension?.value.fork().content(Tag.octetString);
  },
};

/** Reads the three parts of a signed structure, and nothing inside of them. @throws DerError for anything else. */
export function readSigned(der: Bytes): Signed {
  const fields = new DerReader(der).enterLast(Tag.sequence);
  const signed = {
    signedBytes: fields.element(Tag.sequence),
    signatureAlgorithm: fields.element(Tag.sequence),
    signature: fields.bitStringOctets(),
  };
  fields.finish();
  return signed;
}

/**
 * Reads a TBSCertificate of version 1 or 3 without unique identifiers.
 *
 * @throws DerError for anything else.
 */
export function parseToBeSigned(der: Bytes): ToBeSigned {
  const fields = new DerReader(der).enterLast(Tag.sequence);
  // DER leaves out the default, version 1, so the serial number comes first (X.690 §11.5).
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

/** @throws DerError for times in another form than RFC 5280 §4.1.2.5 demands. */
export function readValidity(fields: DerReader): Validity {
  const times = fields.enter(Tag.sequence);
  const validity = { notBefore: readTime(times), notAfter: readTime(times) };
  times.finish();
  return validity;
}

/** Reads a time of RFC 5280 §4.1.2.5: UTCTime until 2049, GeneralizedTime from 2050, with seconds and Z. */
export function readTime(fields: DerReader): Date {
  if (!fields.nextIs(Tag.utcTime)) {
    const instant = readGeneralizedTime(fields);
    if (instant.getUTCFullYear() < 2050) throw notATime();
    return instant;
  }
  const digits = fields.enter(Tag.utcTime);
  if (digits.length !== 13) throw notATime();
  const yearOfCentury = pairOf(digits);
  return readDayAndTime((yearOfCentury < 50 ? 2000 : 1900) + yearOfCentury, digits);
}

/** Reads a GeneralizedTime with seconds and Z and without fractions. */
export function readGeneralizedTime(fields: DerReader): Date {
  const digits = fields.enter(Tag.generalizedTime);
  if (digits.length !== 15) throw notATime();
  return readDayAndTime(100 * pairOf(digits) + pairOf(digits), digits);
}

function readDayAndTime(year: number, digits: DerReader): Date {
  const month = pairOf(digits) - 1;
  const day = pairOf(digits);
  const hour = pairOf(digits);
  const minute = pairOf(digits);
  const second = pairOf(digits);
  if (digits.octet() !== zulu) throw notATime();
  const isDay = month >= 0 && month < 12 && day > 0 && (day <= 28 || day <= daysIn(year, month));
  const isTime = hour < 24 && minute < 60 && second < 60;
  if (!isDay || !isTime) throw notATime();
  return new Date(Date.UTC(year, month, day, hour, minute, second));
}

const zulu = 0x5a;

/** Day 0 of the next month is the last day of this one for `Date.UTC`. */
function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
}

function pairOf(digits: DerReader): number {
  const tens = digits.octet() - 0x30;
  const ones = digits.octet() - 0x30;
  if (tens < 0 || tens > 9 || ones < 0 || ones > 9) throw notATime();
  return tens * 10 + ones;
}

function notATime(): DerError {
  return new DerError("not a time of RFC 5280 §4.1.2.5");
}
