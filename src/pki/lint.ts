import { type Bytes, bytesEqual, fromHexLiteral } from "./bytes.ts";
import { readValidity, version3 } from "./certificate.ts";
import {
  type CertificateExtensions,
  type Extension,
  type ExtensionName,
  readExtensions,
} from "./certificate-extensions.ts";
import { DerError, DerReader, Tag } from "./der-reader.ts";
import { derSequence } from "./der-writer.ts";
import { Oid } from "./object-identifiers.ts";
import { isWorkloadSpiffeId } from "./spiffe-id.ts";
import type { SubjectPublicKey } from "./subject-public-key.ts";
import type { Validity } from "./validity.ts";

/** What the certificate was meant to be; the linter compares the bytes with it. */
export interface Intent {
  readonly kind: "leaf" | "authority";
  readonly spiffeId: string;
  /** From the strict parser, which holds it to RFC 5480 §2 and the key policy. */
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

/**
 * What the bytes say, read in one pass. Fields that have one right value are compared where they
 * stand: this runs for every certificate, and copies are what it would spend most on.
 */
interface Linted {
  readonly serialNumber: Bytes;
  readonly hasSignersAlgorithm: boolean;
  readonly hasEmptyIssuer: boolean;
  readonly hasSignersName: boolean;
  readonly validity: Validity;
  readonly hasEmptySubject: boolean;
  readonly hasRequestedKey: boolean;
  readonly extensions: CertificateExtensions;
  readonly keyUsage: number;
  readonly hasIntendedNameOnly: boolean;
}

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
  ["RFC 5280 §4.1.2.3 signature algorithm of the signer", (c) => c.hasSignersAlgorithm],
  ["RFC 5280 §4.1.2.4 issuer not empty", (c) => !c.hasEmptyIssuer],
  ["RFC 5280 §4.1.2.4 issuer is the signer's subject", (c) => c.hasSignersName],
  ["RFC 5280 §4.1.2.5 validity as decided", (c, i) => sameInterval(c.validity, i.validity)],
  ["RFC 5280 §4.1.2.5 validity not empty", (c) => lasts(c.validity)],
  ["not valid beyond the signer", (c, i) => endsWithin(c.validity, i.issuerValidity)],
  ["RFC 5280 §4.1.2.7 the requested public key", (c) => c.hasRequestedKey],
  ["RFC 5280 §4.2 only known extensions", (c) => !c.extensions.hasUnknown],
  ["RFC 5280 §4.2.1.1 authority key identifier", keepsAuthorityKeyIdentifier],
  ["RFC 5280 §4.2.1.2 subject key identifier, not critical", keepsSubjectKeyIdentifier],
  ["RFC 5280 §4.2.1.3 key usage critical", (c) => isCritical(c, "keyUsage")],
  ["RFC 5280 §4.2.1.9 basic constraints critical", (c) => isCritical(c, "basicConstraints")],
  ["X509-SVID §2 exactly one name, the SPIFFE ID", (c) => c.hasIntendedNameOnly],
];

const leaf: readonly Rule[] = [
  ["X509-SVID §2 a SPIFFE ID with a path", (_, i) => isWorkloadSpiffeId(i.spiffeId)],
  ["RFC 5280 §4.1.2.6 subject empty", (c) => c.hasEmptySubject],
  ["RFC 5280 §4.2.1.6 names critical without a subject", (c) => isCritical(c, "subjectAltName")],
  ["X509-SVID §4.1 not a CA", (c) => hasBasicConstraints(c, emptySequence)],
  ["X509-SVID §4.3 digitalSignature", (c) => (c.keyUsage & Usage.digitalSignature) !== 0],
  [
    "X509-SVID §4.3 no keyCertSign, no cRLSign",
    (c) => (c.keyUsage & (Usage.keyCertSign | Usage.cRLSign)) === 0,
  ],
  ["RFC 8813 §3 no encipherment with an elliptic curve key", keepsEncipherment],
  ["X509-SVID §4.4 serverAuth and clientAuth, not critical", keepsExtendedKeyUsage],
];

const authority: readonly Rule[] = [
  ["RFC 5280 §4.1.2.6 subject of a CA not empty", (c) => !c.hasEmptySubject],
  ["RFC 5280 §4.2.1.9 cA", (c) => hasBasicConstraints(c, certificateAuthority)],
  [
    "RFC 5280 §4.2.1.3 keyCertSign and cRLSign alone",
    (c) => c.keyUsage === (Usage.keyCertSign | Usage.cRLSign),
  ],
  ["X509-SVID §4.4 no extended key usage on a CA", (c) => !c.extensions.get("extKeyUsage")],
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
    const certificate = read(toBeSigned, intent);
    const findings: Finding[] = [];
    for (const [clause, keeps] of rules[intent.kind]) {
      if (!keeps(certificate, intent)) findings.push({ clause });
    }
    return findings;
  } catch (error) {
    // What the strict reader refuses (RFC 5280 §4.1 in DER) is a finding like the others.
    if (error instanceof DerError) return [{ clause: `RFC 5280 §4.1 ${error.message}` }];
    throw error;
  }
}

function read(toBeSigned: Bytes, intent: Intent): Linted {
  const outer = new DerReader(toBeSigned);
  const fields = outer.enter(Tag.sequence);
  outer.finish();
  fields.literal(version3);
  const serialNumber = fields.content(Tag.integer);
  const hasSignersAlgorithm = isNext(fields, intent.signatureAlgorithm);
  const hasEmptyIssuer = fields.isAt(emptySequence);
  const hasSignersName = isNext(fields, intent.issuer);
  const validity = readValidity(fields);
  const hasEmptySubject = isNext(fields, emptySequence);
  const hasRequestedKey = isNext(fields, intent.publicKey.spki);
  const extensions = readExtensions(fields);
  fields.finish();
  return {
    serialNumber,
    hasSignersAlgorithm,
    hasEmptyIssuer,
    hasSignersName,
    validity,
    hasEmptySubject,
    hasRequestedKey,
    extensions,
    keyUsage: readKeyUsage(extensions),
    hasIntendedNameOnly: hasOnlyName(extensions, intent.spiffeId),
  };
}

/** Reads past a SEQUENCE and says whether it was this one. */
function isNext(fields: DerReader, expected: Bytes): boolean {
  const isExpected = fields.isAt(expected);
  fields.skip(Tag.sequence);
  return isExpected;
}

/** The first octet of the bits, which holds all that are used here; minimal as X.690 §11.2.2 demands. */
function readKeyUsage(extensions: CertificateExtensions): number {
  const reader = extensions.get("keyUsage")?.value.fork();
  if (!reader) throw new DerError("no key usage");
  const content = reader.content(Tag.bitString);
  reader.finish();
  const unusedBits = content[0] ?? 0;
  const bits = content[1] ?? 0;
  const lowestBit = bits & -bits;
  const isMinimal = bits !== 0 && unusedBits < 8 && lowestBit === 1 << unusedBits;
  if (!isMinimal || content.length > 2) throw new DerError("key usage bits not minimal");
  return bits;
}

function hasOnlyName(extensions: CertificateExtensions, uri: string): boolean {
  const reader = extensions.get("subjectAltName")?.value.fork();
  if (!reader) throw new DerError("no subject alternative name");
  const names = reader.enter(Tag.sequence);
  reader.finish();
  if (names.isDone) return false;
  const name = names.content(Tag.contextPrimitive(6));
  return names.isDone && spells(name, uri);
}

function spells(octets: Bytes, text: string): boolean {
  if (octets.length !== text.length) return false;
  for (let i = 0; i < octets.length; i++) if (octets[i] !== text.charCodeAt(i)) return false;
  return true;
}

function keepsAuthorityKeyIdentifier({ extensions }: Linted, intent: Intent): boolean {
  const extension = extensions.get("authorityKeyIdentifier");
  if (intent.kind === "authority" || !intent.issuerKeyIdentifier) return extension === undefined;
  if (!extension || extension.isCritical) return false;
  const reader = extension.value.fork();
  const fields = reader.enter(Tag.sequence);
  reader.finish();
  const identifier = fields.content(Tag.contextPrimitive(0));
  return fields.isDone && bytesEqual(identifier, intent.issuerKeyIdentifier);
}

function keepsSubjectKeyIdentifier({ extensions }: Linted): boolean {
  const extension = extensions.get("subjectKeyIdentifier");
  if (!extension || extension.isCritical) return false;
  const reader = extension.value.fork();
  const identifier = reader.content(Tag.octetString);
  return reader.isDone && identifier.length > 0;
}

function keepsEncipherment(c: Linted, intent: Intent): boolean {
  const allowed =
    intent.publicKey.algorithm === "RSA"
      ? Usage.digitalSignature | Usage.keyEncipherment
      : Usage.digitalSignature;
  return (c.keyUsage & ~allowed) === 0;
}

function keepsExtendedKeyUsage({ extensions }: Linted): boolean {
  const extension = extensions.get("extKeyUsage");
  return extension?.isCritical === false && hasExactly(extension, serverAndClientAuth);
}

const serverAndClientAuth = derSequence(Oid.serverAuth, Oid.clientAuth);

function hasBasicConstraints({ extensions }: Linted, value: Bytes): boolean {
  const extension = extensions.get("basicConstraints");
  return extension !== undefined && hasExactly(extension, value);
}

function hasExactly({ value }: Extension, expected: Bytes): boolean {
  if (!value.isAt(expected)) return false;
  const reader = value.fork();
  reader.literal(expected);
  return reader.isDone;
}

function isPositive(integer: Bytes): boolean {
  const first = integer[0] ?? 0;
  const second = integer[1] ?? 0;
  return first < 0x80 && (first !== 0 || second >= 0x80);
}

function isCritical(c: Linted, name: ExtensionName): boolean {
  return c.extensions.get(name)?.isCritical === true;
}

function sameInterval(a: Validity, b: Validity): boolean {
  return (
    a.notBefore.getTime() === b.notBefore.getTime() && a.notAfter.getTime() === b.notAfter.getTime()
  );
}

function lasts({ notBefore, notAfter }: Validity): boolean {
  return notBefore.getTime() < notAfter.getTime();
}

function endsWithin(inner: Validity, outer: Validity): boolean {
  return inner.notAfter.getTime() <= outer.notAfter.getTime();
}
