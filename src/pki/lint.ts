import { type Bytes, bytesEqual, fromHexLiteral } from "./bytes.ts";
import { type Extension, findExtension, parseToBeSigned, type ToBeSigned } from "./certificate.ts";
import { DerError, DerReader, Tag } from "./der-reader.ts";
import { Oid } from "./object-identifiers.ts";
import { isWorkloadSpiffeId } from "./spiffe-id.ts";
import { parseSubjectPublicKey, type SubjectPublicKey } from "./subject-public-key.ts";
import type { Validity } from "./validity.ts";

/** What the certificate was meant to be; the linter compares the bytes with it. */
export interface Intent {
  readonly kind: "leaf" | "authority";
  readonly spiffeId: string;
  readonly publicKey: SubjectPublicKey;
  readonly validity: Validity;
  readonly signatureAlgorithm: Bytes;
  /** The signer's subject, byte for byte; an authority's own when it is self-signed. */
  readonly issuer: Bytes;
  readonly issuerValidity: Validity;
  readonly issuerKeyIdentifier: Bytes | undefined;
}

/** A clause that the bytes break. */
export interface Finding {
  readonly clause: string;
}

type Rule = readonly [clause: string, keeps: (c: Linted, intent: Intent) => boolean];

/** A certificate under the linter, with the readings that several rules share. */
interface Linted extends ToBeSigned {
  readonly key: SubjectPublicKey;
  readonly keyUsage: number;
  readonly uris: readonly string[];
}

const knownExtensions: readonly Bytes[] = [
  Oid.keyUsage,
  Oid.extKeyUsage,
  Oid.basicConstraints,
  Oid.subjectKeyIdentifier,
  Oid.authorityKeyIdentifier,
  Oid.subjectAltName,
];

/** KeyUsage bits in the order of RFC 5280 §4.2.1.3, the first one highest. */
const Usage = {
  digitalSignature: 0x80,
  keyEncipherment: 0x20,
  keyCertSign: 0x04,
  cRLSign: 0x02,
} as const;

const emptySequence = fromHexLiteral("3000");
const certificateAuthority = fromHexLiteral("30030101ff");

const everyCertificate: readonly Rule[] = [
  ["RFC 5280 §4.1.2.2 serial positive", (c) => isPositive(c.serialNumber)],
  ["RFC 5280 §4.1.2.2 serial of 20 octets at most", (c) => c.serialNumber.length <= 20],
  ["serial with 128 random bits", (c) => c.serialNumber.length >= 17],
  [
    "RFC 5280 §4.1.2.3 signature algorithm of the signer",
    (c, i) => bytesEqual(c.signatureAlgorithm, i.signatureAlgorithm),
  ],
  ["RFC 5280 §4.1.2.4 issuer not empty", (c) => !bytesEqual(c.issuer, emptySequence)],
  ["RFC 5280 §4.1.2.4 issuer is the signer's subject", (c, i) => bytesEqual(c.issuer, i.issuer)],
  ["RFC 5280 §4.1.2.5 validity as decided", (c, i) => sameInterval(c.validity, i.validity)],
  ["RFC 5280 §4.1.2.5 validity not empty", (c) => c.validity.notBefore < c.validity.notAfter],
  ["not valid beyond the signer", (c, i) => c.validity.notAfter <= i.issuerValidity.notAfter],
  ["RFC 5280 §4.1.2.7 the requested public key", (c, i) => bytesEqual(c.spki, i.publicKey.spki)],
  ["RFC 5280 §4.2 only known extensions", (c) => c.extensions.every(isKnown)],
  ["RFC 5280 §4.2.1.1 authority key identifier", keepsAuthorityKeyIdentifier],
  ["RFC 5280 §4.2.1.2 subject key identifier, not critical", keepsSubjectKeyIdentifier],
  ["RFC 5280 §4.2.1.3 key usage critical", (c) => isCritical(c, Oid.keyUsage)],
  ["RFC 5280 §4.2.1.9 basic constraints critical", (c) => isCritical(c, Oid.basicConstraints)],
  [
    "X509-SVID §2 exactly one name, the SPIFFE ID",
    (c, i) => c.uris.length === 1 && c.uris[0] === i.spiffeId,
  ],
];

const leaf: readonly Rule[] = [
  ["X509-SVID §2 a SPIFFE ID with a path", (c) => c.uris.every(isWorkloadSpiffeId)],
  ["RFC 5280 §4.1.2.6 subject empty", (c) => bytesEqual(c.subject, emptySequence)],
  ["RFC 5280 §4.2.1.6 names critical without a subject", (c) => isCritical(c, Oid.subjectAltName)],
  ["X509-SVID §4.1 not a CA", (c) => hasValue(c, Oid.basicConstraints, emptySequence)],
  ["X509-SVID §4.3 digitalSignature", (c) => (c.keyUsage & Usage.digitalSignature) !== 0],
  [
    "X509-SVID §4.3 no keyCertSign, no cRLSign",
    (c) => (c.keyUsage & (Usage.keyCertSign | Usage.cRLSign)) === 0,
  ],
  ["RFC 8813 §3 no encipherment with an elliptic curve key", keepsEncipherment],
  ["X509-SVID §4.4 serverAuth and clientAuth, not critical", keepsExtendedKeyUsage],
];

const authority: readonly Rule[] = [
  ["RFC 5280 §4.1.2.6 subject of a CA not empty", (c) => !bytesEqual(c.subject, emptySequence)],
  ["RFC 5280 §4.2.1.9 cA", (c) => hasValue(c, Oid.basicConstraints, certificateAuthority)],
  [
    "RFC 5280 §4.2.1.3 keyCertSign and cRLSign alone",
    (c) => c.keyUsage === (Usage.keyCertSign | Usage.cRLSign),
  ],
  [
    "X509-SVID §4.4 no extended key usage on a CA",
    (c) => !findExtension(c.extensions, Oid.extKeyUsage),
  ],
];

const rules: Readonly<Record<Intent["kind"], readonly Rule[]>> = {
  leaf: [...everyCertificate, ...leaf],
  authority: [...everyCertificate, ...authority],
};

/**
 * Every clause of RFC 5280, RFC 5480, RFC 8813 and X509-SVID that these to-be-signed bytes break,
 * and every difference from what was meant. An empty list is the permission to sign them.
 *
 * It reads the finished bytes with the reader, so that a mistake of the writer is found by other code.
 */
export function lint(toBeSigned: Bytes, intent: Intent): readonly Finding[] {
  try {
    const certificate = readLinted(parseToBeSigned(toBeSigned));
    const findings: Finding[] = [];
    for (const [clause, keeps] of rules[intent.kind]) {
      if (!keeps(certificate, intent)) findings.push({ clause });
    }
    return findings;
  } catch (error) {
    // What the strict readers refuse (RFC 5280 §4.1 in DER, RFC 5480 §2.1.1) is a finding like the others.
    if (error instanceof DerError) return [{ clause: `RFC 5280 §4.1 ${error.message}` }];
    throw error;
  }
}

function readLinted(toBeSigned: ToBeSigned): Linted {
  const { serialNumber, signatureAlgorithm, issuer, validity, subject, spki, extensions } =
    toBeSigned;
  return {
    serialNumber,
    signatureAlgorithm,
    issuer,
    validity,
    subject,
    spki,
    extensions,
    key: parseSubjectPublicKey(toBeSigned.spki),
    keyUsage: readKeyUsage(findExtension(toBeSigned.extensions, Oid.keyUsage)),
    uris: readUris(findExtension(toBeSigned.extensions, Oid.subjectAltName)),
  };
}

/** The first octet of the bits, which holds all that are used here; minimal as X.690 §11.2.2 demands. */
function readKeyUsage(extension: Extension | undefined): number {
  if (!extension) throw new DerError("no key usage");
  const reader = new DerReader(extension.value);
  const [unusedBits = 0, bits = 0, ...more] = reader.content(Tag.bitString);
  reader.finish();
  const isMinimal = bits !== 0 && more.length === 0 && (bits & -bits) === 1 << unusedBits;
  if (!isMinimal) throw new DerError("key usage bits not minimal");
  return bits;
}

function readUris(extension: Extension | undefined): string[] {
  if (!extension) throw new DerError("no subject alternative name");
  const reader = new DerReader(extension.value);
  const names = reader.enter(Tag.sequence);
  reader.finish();
  const uris: string[] = [];
  while (!names.isDone) uris.push(ascii.decode(names.content(Tag.contextPrimitive(6))));
  return uris;
}

/** IA5String; an octet above 127 becomes a character that no SPIFFE ID has. */
const ascii = new TextDecoder();

function keepsAuthorityKeyIdentifier(c: Linted, intent: Intent): boolean {
  const extension = findExtension(c.extensions, Oid.authorityKeyIdentifier);
  if (intent.kind === "authority" || !intent.issuerKeyIdentifier) return extension === undefined;
  if (!extension || extension.isCritical) return false;
  const reader = new DerReader(extension.value);
  const fields = reader.enter(Tag.sequence);
  reader.finish();
  const identifier = fields.content(Tag.contextPrimitive(0));
  fields.finish();
  return bytesEqual(identifier, intent.issuerKeyIdentifier);
}

function keepsSubjectKeyIdentifier(c: Linted): boolean {
  const extension = findExtension(c.extensions, Oid.subjectKeyIdentifier);
  if (!extension || extension.isCritical) return false;
  const reader = new DerReader(extension.value);
  const identifier = reader.content(Tag.octetString);
  reader.finish();
  return identifier.length > 0;
}

function keepsEncipherment(c: Linted): boolean {
  const allowed =
    c.key.algorithm === "RSA"
      ? Usage.digitalSignature | Usage.keyEncipherment
      : Usage.digitalSignature;
  return (c.keyUsage & ~allowed) === 0;
}

function keepsExtendedKeyUsage(c: Linted): boolean {
  const extension = findExtension(c.extensions, Oid.extKeyUsage);
  if (!extension || extension.isCritical) return false;
  const reader = new DerReader(extension.value);
  const usages = reader.enter(Tag.sequence);
  reader.finish();
  usages.literal(Oid.serverAuth);
  usages.literal(Oid.clientAuth);
  return usages.isDone;
}

function isPositive(integer: Bytes): boolean {
  const [first = 0, second = 0] = integer;
  return first < 0x80 && (first !== 0 || second >= 0x80);
}

function isKnown({ oid }: Extension): boolean {
  return knownExtensions.some((known) => bytesEqual(known, oid));
}

function isCritical(c: ToBeSigned, oid: Bytes): boolean {
  return findExtension(c.extensions, oid)?.isCritical === true;
}

function hasValue(c: ToBeSigned, oid: Bytes, value: Bytes): boolean {
  const extension = findExtension(c.extensions, oid);
  return extension !== undefined && bytesEqual(extension.value, value);
}

function sameInterval(a: Validity, b: Validity): boolean {
  return (
    a.notBefore.getTime() === b.notBefore.getTime() && a.notAfter.getTime() === b.notAfter.getTime()
  );
}
