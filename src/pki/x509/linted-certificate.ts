import { type Bytes, fromHexLiteral } from "../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../encoding/der-reader.ts";
import { type Interval, readInterval, version3 } from "./certificate.ts";
import { type CertificateExtensions, readExtensions } from "./certificate-extensions.ts";
import type { SubjectPublicKey } from "./subject-public-key.ts";
import type { Validity } from "./validity.ts";

/** What the certificate was meant to be; the linter compares the bytes with it. */
export interface Intent {
  readonly kind: "leaf" | "serving" | "authority";
  /** Empty for a serving certificate, which is nobody's identity. */
  readonly spiffeId: string;
  /** In their order; only a serving certificate has any. */
  readonly dnsNames?: readonly string[];
  /** From the strict parser, which holds it to RFC 5480 §2 and the key policy. */
  readonly publicKey: SubjectPublicKey;
  readonly keyIdentifier: Bytes;
  readonly validity: Validity;
  readonly issuer: IssuerFields;
}

/** What a certificate repeats of its signer, and the time that it must stay within. */
export interface IssuerFields {
  readonly signatureAlgorithm: Bytes;
  /** The signer's subject, byte for byte; an authority's own when it is self-signed. */
  readonly name: Bytes;
  readonly validity: Validity;
  readonly keyIdentifier: Bytes | undefined;
}

/**
 * What the bytes say, read in one pass. Fields that have one right value are compared where they
 * stand: this runs for every certificate, and copies are what it would spend most on.
 */
export interface Linted {
  readonly serialOctets: number;
  readonly isSerialPositive: boolean;
  readonly hasSignersAlgorithm: boolean;
  readonly hasEmptyIssuer: boolean;
  readonly hasSignersName: boolean;
  readonly interval: Interval;
  readonly hasEmptySubject: boolean;
  readonly hasRequestedKey: boolean;
  readonly extensions: CertificateExtensions;
  readonly keyUsage: number;
  readonly hasIntendedNamesOnly: boolean;
}

export const emptySequence: Bytes = fromHexLiteral("3000");

/** @throws DerError for bytes that are no TBSCertificate of version 3 in DER. */
export function readLinted(toBeSigned: Bytes, intent: Intent): Linted {
  const outer = new DerReader(toBeSigned);
  const fields = outer.enter(Tag.sequence);
  outer.finish();
  fields.literal(version3);
  const serialNumber = fields.enter(Tag.integer);
  const serialOctets = serialNumber.length;
  const hasSignersAlgorithm = isNext(fields, intent.issuer.signatureAlgorithm);
  const hasEmptyIssuer = fields.isAt(emptySequence);
  const hasSignersName = isNext(fields, intent.issuer.name);
  const interval = readInterval(fields);
  const hasEmptySubject = isNext(fields, emptySequence);
  const hasRequestedKey = isNext(fields, intent.publicKey.spki);
  const extensions = readExtensions(fields);
  fields.finish();
  return {
    serialOctets,
    isSerialPositive: isPositive(serialNumber),
    hasSignersAlgorithm,
    hasEmptyIssuer,
    hasSignersName,
    interval,
    hasEmptySubject,
    hasRequestedKey,
    extensions,
    keyUsage: readKeyUsage(extensions),
    hasIntendedNamesOnly: hasOnlyNames(extensions, intent),
  };
}

/** Of DER's INTEGER, which has no leading octet too many: zero is the one that is neither. */
function isPositive(content: DerReader): boolean {
  if (content.isDone) return false;
  const first = content.octet();
  if (first !== 0) return first < 0x80;
  return !content.isDone && content.octet() >= 0x80;
}

/** Reads past a SEQUENCE and says whether it was this one. */
function isNext(fields: DerReader, expected: Bytes): boolean {
  const isExpected = fields.isAt(expected);
  fields.skip(Tag.sequence);
  return isExpected;
}

/** The first octet of the bits, which holds all that are used here; minimal as X.690 §11.2.2 demands. */
function readKeyUsage(extensions: CertificateExtensions): number {
  const reader = extensions.keyUsage?.value.fork();
  if (!reader) throw new DerError("no key usage");
  const content = reader.enter(Tag.bitString);
  reader.finish();
  const unusedBits = content.octet();
  const bits = content.octet();
  const lowestBit = bits & -bits;
  const isMinimal = bits !== 0 && unusedBits < 8 && lowestBit === 1 << unusedBits;
  if (!isMinimal || !content.isDone) throw new DerError("key usage bits not minimal");
  return bits;
}

const dnsName = Tag.contextPrimitive(2);
const uriName = Tag.contextPrimitive(6);

function hasOnlyNames(extensions: CertificateExtensions, { spiffeId, dnsNames }: Intent): boolean {
  const reader = extensions.subjectAltName?.value.fork();
  if (!reader) throw new DerError("no subject alternative name");
  const names = reader.enter(Tag.sequence);
  reader.finish();
  if (names.isDone) return false;
  if (dnsNames) return dnsNames.every((name) => isName(names, dnsName, name)) && names.isDone;
  return isName(names, uriName, spiffeId) && names.isDone;
}

/** Reads past a name and says whether it was this one. */
function isName(names: DerReader, kind: number, text: string): boolean {
  return names.nextIs(kind) && spells(names.enter(kind), text);
}

function spells(octets: DerReader, text: string): boolean {
  if (octets.length !== text.length) return false;
  for (let i = 0; i < text.length; i++) if (octets.octet() !== text.charCodeAt(i)) return false;
  return true;
}
