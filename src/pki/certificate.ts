import { type Bytes, fromHexLiteral, toHex } from "./bytes.ts";
import { DerError, DerReader, Tag } from "./der-reader.ts";
import type { Validity } from "./validity.ts";

/** One extension of a certificate, its value unread. */
export interface Extension {
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
  /** By the hexadecimal of the whole OID element; an OID that comes twice is refused. */
  readonly extensions: ReadonlyMap<string, Extension>;
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
  if (toHex(algorithm) !== toHex(toBeSigned.signatureAlgorithm)) {
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

const timeForms = [
  { tag: Tag.utcTime, form: /^(\d{2})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/ },
  { tag: Tag.generalizedTime, form: /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/ },
];

/** RFC 5280 §4.1.2.5: UTCTime to 2049, GeneralizedTime from 2050, seconds, Z. */
function parseTime(fields: DerReader): Date {
  const timeForm = timeForms.find(({ tag }) => fields.nextIs(tag));
  if (!timeForm) throw new DerError("not a time");
  const text = String.fromCharCode(...fields.content(timeForm.tag));
  const [, year = "", month, day, hour, minute, second] = timeForm.form.exec(text) ?? [];
  const century = year.length === 4 ? "" : Number(year) < 50 ? "20" : "19";
  const iso = `${century}${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
  const instant = new Date(iso);
  // The comparison also refuses the 31st of February, which Date takes for a day in March.
  if (Number.isNaN(instant.getTime()) || instant.toISOString() !== iso) {
    throw new DerError("not a time of RFC 5280");
  }
  if (year.length === 4 && instant.getUTCFullYear() < 2050) {
    throw new DerError("GeneralizedTime before 2050");
  }
  return instant;
}

function parseExtensions(wrapper: DerReader): ReadonlyMap<string, Extension> {
  const list = wrapper.enter(Tag.sequence);
  wrapper.finish();
  const extensions = new Map<string, Extension>();
  while (!list.isDone) {
    const fields = list.enter(Tag.sequence);
    const oid = toHex(fields.element(Tag.objectIdentifier));
    const isCritical = fields.nextIs(Tag.boolean);
    if (isCritical) fields.literal(criticalTrue);
    const value = fields.content(Tag.octetString);
    fields.finish();
    if (extensions.has(oid)) throw new DerError("an extension twice (RFC 5280 §4.2)");
    extensions.set(oid, { isCritical, value });
  }
  return extensions;
}
