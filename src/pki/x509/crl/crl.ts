import { type Bytes, bytesEqual, fromHexLiteral, toHex } from "../../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../../encoding/der-reader.ts";
import { Oid } from "../../encoding/object-identifiers.ts";
import { type Certificate, readTime, subjectKeyIdentifierOf } from "../certificate.ts";
import { nextExtension } from "../certificate-extensions.ts";

/** A CRL (RFC 5280 §5.1). Nobody has verified its signature. */
export interface Crl {
  readonly der: Bytes;
  /** The whole TBSCertList, which the signature covers. */
  readonly signedBytes: Bytes;
  readonly signatureAlgorithm: Bytes;
  readonly signature: Bytes;
  readonly issuer: Bytes;
  readonly thisUpdate: Date;
  /** `undefined` where it does not say, which RFC 5280 §5.1.2.5 forbids to CAs. */
  readonly nextUpdate: Date | undefined;
  /** The key identifier of the issuer. */
  readonly authorityKeyIdentifier: Bytes | undefined;
  readonly number: bigint | undefined;
  /** Then it may be about other certificates than it seems (RFC 5280 §5.2). */
  readonly hasUnknownCritical: boolean;
  /** A reader at the first entry. Fork it to read. `undefined` where nothing is revoked. */
  readonly entries: DerReader | undefined;
}

const version2 = fromHexLiteral("020101");

/**
 * Reads a CRL of version 1 or 2 without its entries, of which there may be a hundred thousand.
 *
 * @throws DerError for anything else.
 */
export function parseCrl(der: Bytes): Crl {
  const outer = new DerReader(der);
  const fields = outer.enter(Tag.sequence);
  outer.finish();
  const signedBytes = fields.element(Tag.sequence);
  const algorithm = fields.element(Tag.sequence);
  const signature = fields.bitStringOctets();
  fields.finish();
  const list = new DerReader(signedBytes).enter(Tag.sequence);
  if (list.nextIs(Tag.integer)) list.literal(version2);
  const signatureAlgorithm = list.element(Tag.sequence);
  if (!bytesEqual(algorithm, signatureAlgorithm)) {
    throw new DerError("the signature algorithm differs inside and outside (RFC 5280 §5.1.1.2)");
  }
  const issuer = list.element(Tag.sequence);
  const thisUpdate = new Date(readTime(list));
  const hasNext = list.nextIs(Tag.utcTime) || list.nextIs(Tag.generalizedTime);
  const nextUpdate = hasNext ? new Date(readTime(list)) : undefined;
  const entries = list.nextIs(Tag.sequence) ? list.enter(Tag.sequence) : undefined;
  const extensions = list.isDone ? noExtensions : readCrlExtensions(list);
  list.finish();
  const read = { der, signedBytes, signatureAlgorithm, signature, issuer, thisUpdate, nextUpdate };
  return { ...read, entries, ...extensions };
}

type CrlExtensions = Pick<Crl, "authorityKeyIdentifier" | "number" | "hasUnknownCritical">;

const noExtensions: CrlExtensions = {
  authorityKeyIdentifier: undefined,
  number: undefined,
  hasUnknownCritical: false,
};

function readCrlExtensions(list: DerReader): CrlExtensions {
  const wrapper = list.enter(Tag.contextConstructed(0));
  const extensions = wrapper.enter(Tag.sequence);
  wrapper.finish();
  let found = noExtensions;
  while (!extensions.isDone) {
    const { oid, isCritical, value } = nextExtension(extensions);
    if (oid.isAt(Oid.crlNumber)) found = { ...found, number: readNumber(value) };
    else if (oid.isAt(Oid.authorityKeyIdentifier)) {
      found = { ...found, authorityKeyIdentifier: readKeyIdentifier(value) };
    } else if (isCritical) found = { ...found, hasUnknownCritical: true };
  }
  return found;
}

/** RFC 5280 §5.2.3: of at most 20 octets. */
function readNumber(value: DerReader): bigint {
  const octets = value.unsignedInteger();
  value.finish();
  if (octets.length > 20) throw new DerError("a number of more than 20 octets (RFC 5280 §5.2.3)");
  return BigInt(`0x${toHex(octets)}`);
}

function readKeyIdentifier(value: DerReader): Bytes | undefined {
  const fields = value.enter(Tag.sequence);
  value.finish();
  const tag = Tag.contextPrimitive(0);
  return fields.nextIs(tag) ? fields.content(tag) : undefined;
}

/** Whether a verifier accepts the CRL at this time: OpenSSL and BoringSSL refuse it before and after. */
export function isCurrentAt({ thisUpdate, nextUpdate }: Crl, now: Date): boolean {
  return thisUpdate <= now && (nextUpdate === undefined || now < nextUpdate);
}

/** A CA as its CRLs name it. */
interface CrlIssuer {
  readonly subject: Bytes;
  readonly keyIdentifier: Bytes | undefined;
  /** Its key usage has cRLSign, or it has none. Verifiers take no CRL of another CA (RFC 5280 §6.3.3 f). */
  readonly maySign: boolean;
}

/** @throws DerError for a broken extension. */
export function crlIssuerOf(certificate: Certificate): CrlIssuer {
  const {
    subject,
    extensions: { keyUsage },
  } = certificate.toBeSigned;
  const keyIdentifier = subjectKeyIdentifierOf(certificate);
  const [, bits = 0] = keyUsage?.value.fork().content(Tag.bitString) ?? [0, cRLSign];
  return { subject, keyIdentifier, maySign: (bits & cRLSign) !== 0 };
}

const cRLSign = 0x02;

/** Whether a CRL names this CA as its issuer, by name and key identifier. Its signature is another question. */
export function isCrlOf(crl: Crl, { subject, keyIdentifier }: CrlIssuer): boolean {
  const { issuer, authorityKeyIdentifier: named } = crl;
  if (!bytesEqual(issuer, subject)) return false;
  return named === undefined || keyIdentifier === undefined || bytesEqual(named, keyIdentifier);
}

/**
 * Those of the serial numbers that a CRL names. One pass suffices for all identities of a node.
 *
 * @param serialNumbers In lower-case hexadecimal, without leading zero octets.
 * @throws DerError for a broken entry.
 */
export function namedIn({ entries }: Crl, serialNumbers: ReadonlySet<string>): readonly string[] {
  const named: string[] = [];
  const list = entries?.fork();
  while (list && !list.isDone) {
    const serialNumber = toHex(list.enter(Tag.sequence).unsignedInteger());
    if (serialNumbers.has(serialNumber)) named.push(serialNumber);
  }
  return named;
}

/** The certificates that a CRL names. */
export interface CrlEntries {
  readonly issuer: Bytes;
  /** The content octets of the serial numbers, in hexadecimal. */
  readonly serialNumbers: ReadonlySet<string>;
}

/**
 * Reads a CRL. Nobody verifies its signature here: an operator's file that names a certificate as revoked
 * is reason enough to refuse the certificate.
 *
 * @throws DerError
 */
export function parseCrlEntries(der: Bytes): CrlEntries {
  const { issuer, entries } = parseCrl(der);
  return { issuer, serialNumbers: new Set(entries && readEntries(entries.fork())) };
}

function readEntries(entries: DerReader): string[] {
  const serialNumbers: string[] = [];
  while (!entries.isDone) {
    const entry = entries.enter(Tag.sequence);
    serialNumbers.push(toHex(entry.content(Tag.integer)));
    entry.skipAll();
  }
  return serialNumbers;
}

/** Whether one of the CRLs names this certificate. */
export function isRevoked(
  { toBeSigned: { issuer, serialNumber } }: Certificate,
  crls: readonly CrlEntries[],
): boolean {
  const number = toHex(serialNumber);
  return crls.some((crl) => bytesEqual(crl.issuer, issuer) && crl.serialNumbers.has(number));
}
