import { DnsName } from "../../../../foundation/addresses.ts";
import { Bytes, Hex } from "../../../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../../../encoding/der-reader.ts";
import { SpiffeId } from "../../../spiffe-id.ts";
import { readValidity, version3 } from "../../certificate.ts";
import {
  type Extension,
  type ExtensionName,
  readExtensions,
  uriName,
} from "../../certificate-extensions.ts";
import type { SubjectPublicKey } from "../../subject-public-key.ts";
import type { Validity } from "../../validity.ts";
import { IdentityProof } from "../identity-proof.ts";
import type { IssuerFields } from "../to-be-signed.ts";

/** The intended certificate, with which the linter compares the bytes. */
export interface Intent {
  readonly kind: "leaf" | "serving" | "intermediate" | "authority";
  /** Empty for a serving certificate, which has no identity. */
  readonly spiffeId: string;
  /** The names in their order: of a serving certificate, or of a leaf beside its SPIFFE ID. */
  readonly dnsNames?: readonly string[] | undefined;
  readonly publicKey: SubjectPublicKey;
  readonly keyIdentifier: Bytes;
  readonly validity: Validity;
  /** How the caller was authenticated; only leaves have it. */
  readonly proof?: IdentityProof;
  /** The value of the extension. Present only for an intermediate, because intermediates differ in their path length. */
  readonly basicConstraints?: Bytes;
  /** The value of the extension. Only an intermediate may have one. */
  readonly nameConstraints?: Bytes;
  readonly issuer: IssuerFields;
}

type Rule = readonly [clause: string, keeps: (c: Linted, intent: Intent) => boolean];

/** KeyUsage bits (RFC 5280 §4.2.1.3) as they are in the first octet: bit 0 is the highest. */
const Usage = {
  digitalSignature: 0x80,
  keyEncipherment: 0x20,
  keyCertSign: 0x04,
  cRLSign: 0x02,
} as const;

const everyCertificate: readonly Rule[] = [
  ["RFC 5280 §4.1.2.2 serial positive", (c) => c.isSerialPositive],
  ["RFC 5280 §4.1.2.2 serial of 20 octets at most", (c) => c.serialOctets <= 20],
  ["serial with 128 random bits", (c) => c.serialOctets >= 17],
  ["RFC 5280 §4.1.2.3 signature algorithm of the signer", (c) => c.hasSignersAlgorithm],
  ["RFC 5280 §4.1.2.4 issuer not empty", (c) => !c.hasEmptyIssuer],
  ["RFC 5280 §4.1.2.4 issuer is the signer's subject", (c) => c.hasSignersName],
  ["RFC 5280 §4.1.2.5 validity as decided", keepsValidity],
  ["RFC 5280 §4.1.2.5 validity not empty", (c) => c.validity.notBefore < c.validity.notAfter],
  ["not valid beyond the signer", (c, i) => c.validity.notAfter <= i.issuer.validity.notAfter],
  ["RFC 5280 §4.1.2.7 the requested public key", (c) => c.hasRequestedKey],
  [
    "RFC 5280 §4.2 only known extensions",
    (c, i) =>
      !c.extensions.hasUnknown &&
      (c.extensions.nameConstraints === undefined || i.nameConstraints !== undefined),
  ],
  ["RFC 5280 §4.2.1.1 authority key identifier", keepsAuthorityKeyIdentifier],
  ["RFC 5280 §4.2.1.2 subject key identifier, not critical", keepsSubjectKeyIdentifier],
  ["RFC 5280 §4.2.1.3 key usage critical", (c) => isCritical(c, "keyUsage")],
  ["RFC 5280 §4.2.1.9 basic constraints critical", (c) => isCritical(c, "basicConstraints")],
];

/** Rules for every certificate that is not an authority's. */
const endEntity: readonly Rule[] = [
  ["RFC 5280 §4.1.2.6 subject empty", (c) => c.hasEmptySubject],
  ["RFC 5280 §4.2.1.6 names critical without a subject", (c) => isCritical(c, "subjectAltName")],
  ["X509-SVID §4.1 not a CA", (c) => hasBasicConstraints(c, emptySequence)],
  ["X509-SVID §4.3 digitalSignature", (c) => (c.keyUsage & Usage.digitalSignature) !== 0],
  [
    "X509-SVID §4.3 no keyCertSign, no cRLSign",
    (c) => (c.keyUsage & (Usage.keyCertSign | Usage.cRLSign)) === 0,
  ],
  ["RFC 8813 §3 no encipherment with an elliptic curve key", keepsEncipherment],
];

const hostNames: Rule = [
  "RFC 5280 §4.2.1.6 names of hosts",
  (_, { kind, dnsNames }) => dnsNames?.every(DnsName.is) ?? kind === "leaf",
];

const leaf: readonly Rule[] = [
  ["the proof that was established, not critical", keepsIdentityProof],
  // X509-SVID §2 allows DNS names beside the SPIFFE ID.
  [
    "X509-SVID §2 exactly one URI, the SPIFFE ID, and the DNS names that were decided",
    (c) => c.hasIntendedNamesOnly,
  ],
  hostNames,
  ["X509-SVID §2 a SPIFFE ID with a path", (_, i) => SpiffeId.isWorkload(i.spiffeId)],
  [
    "X509-SVID §4.4 serverAuth and clientAuth, not critical",
    (c) => hasExtendedKeyUsage(c, serverAndClientAuth),
  ],
];

const noProof: Rule = [
  "the proof of an identity in a leaf alone",
  (c) => c.extensions.identityProof === undefined,
];

const serving: readonly Rule[] = [
  noProof,
  [
    "RFC 5280 §4.2.1.6 the DNS names that were decided, and no other",
    (c) => c.hasIntendedNamesOnly,
  ],
  hostNames,
  ["RFC 5280 §4.2.1.12 serverAuth alone, not critical", (c) => hasExtendedKeyUsage(c, serverAuth)],
];

/** Rules for every certificate of an authority. */
const anyAuthority: readonly Rule[] = [
  noProof,
  ["X509-SVID §2 exactly one name, the SPIFFE ID", (c) => c.hasIntendedNamesOnly],
  ["RFC 5280 §4.1.2.6 subject of a CA not empty", (c) => !c.hasEmptySubject],
  [
    "RFC 5280 §4.2.1.3 keyCertSign and cRLSign alone",
    (c) => c.keyUsage === (Usage.keyCertSign | Usage.cRLSign),
  ],
  ["X509-SVID §4.4 no extended key usage on a CA", (c) => !c.extensions.extKeyUsage],
];

const authority: readonly Rule[] = [
  ["RFC 5280 §4.2.1.9 cA", (c) => hasBasicConstraints(c, certificateAuthority)],
];

const intermediate: readonly Rule[] = [
  [
    "RFC 5280 §4.2.1.9 cA, with the path length that was decided",
    (c, i) => i.basicConstraints !== undefined && hasBasicConstraints(c, i.basicConstraints),
  ],
  [
    "RFC 5280 §4.2.1.10 the name constraints that were decided, critical",
    ({ extensions: { nameConstraints: found } }, { nameConstraints }) =>
      nameConstraints === undefined ||
      (found?.isCritical === true && found.value.is(nameConstraints)),
  ],
  [
    "X509-SVID §3.2 the SPIFFE ID of a trust domain, without a path",
    (_, i) => !SpiffeId.isWorkload(i.spiffeId),
  ],
];

const rules: Readonly<Record<Intent["kind"], readonly Rule[]>> = {
  leaf: [...everyCertificate, ...endEntity, ...leaf],
  serving: [...everyCertificate, ...endEntity, ...serving],
  intermediate: [...everyCertificate, ...anyAuthority, ...intermediate],
  authority: [...everyCertificate, ...anyAuthority, ...authority],
};

/**
 * Finds every clause of RFC 5280, RFC 5480, RFC 8813 and X509-SVID that to-be-signed bytes break, and
 * every difference from the intent. An empty list permits signing.
 *
 * The linter reads the finished bytes, so that other code than the writer finds the writer's mistakes.
 */
export function lint(toBeSigned: Bytes, intent: Intent): readonly string[] {
  try {
    const certificate = readLinted(toBeSigned, intent);
    const broken = rules[intent.kind].filter(([, keeps]) => !keeps(certificate, intent));
    return broken.map(([clause]) => clause);
  } catch (error) {
    // RFC 5280 §4.1 demands DER, so a departure from DER is a finding like the others.
    if (error instanceof DerError) return [`RFC 5280 §4.1 ${error.message}`];
    throw error;
  }
}

function keepsAuthorityKeyIdentifier({ extensions }: Linted, intent: Intent): boolean {
  const extension = extensions.authorityKeyIdentifier;
  if (intent.kind === "authority") return extension === undefined;
  if (!extension || extension.isCritical || !intent.issuer.keyIdentifier) return false;
  const fields = extension.value.fork().enterLast(Tag.sequence);
  const isIssuers = fields.contentIs(Tag.contextPrimitive(0), intent.issuer.keyIdentifier);
  return isIssuers && fields.isDone;
}

function keepsSubjectKeyIdentifier({ extensions }: Linted, intent: Intent): boolean {
  const extension = extensions.subjectKeyIdentifier;
  if (!extension || extension.isCritical) return false;
  const reader = extension.value.fork();
  return reader.contentIs(Tag.octetString, intent.keyIdentifier) && reader.isDone;
}

function keepsIdentityProof({ extensions }: Linted, { proof }: Intent): boolean {
  const extension = extensions.identityProof;
  if (!proof || !extension || extension.isCritical) return false;
  const { provedAt, issuer, isImpersonated } = IdentityProof.read(extension);
  return (
    provedAt.getTime() === proof.provedAt.getTime() &&
    issuer.length === 16 &&
    Bytes.equal(issuer, proof.issuer) &&
    isImpersonated === proof.isImpersonated
  );
}

function keepsEncipherment(c: Linted, intent: Intent): boolean {
  const allowed =
    intent.publicKey.algorithm === "RSA"
      ? Usage.digitalSignature | Usage.keyEncipherment
      : Usage.digitalSignature;
  return (c.keyUsage & ~allowed) === 0;
}

function hasExtendedKeyUsage({ extensions }: Linted, purposes: Bytes): boolean {
  const extension = extensions.extKeyUsage;
  return extension?.isCritical === false && extension.value.is(purposes);
}

// The linter repeats the writer's constants, because comparing the writer with itself would find nothing.
const serverAndClientAuth = Hex.parseLiteral("301406082b0601050507030106082b06010505070302");
const serverAuth = Hex.parseLiteral("300a06082b06010505070301");
const certificateAuthority = Hex.parseLiteral("30030101ff");
const emptySequence = Hex.parseLiteral("3000");

function hasBasicConstraints({ extensions }: Linted, value: Bytes): boolean {
  return extensions.basicConstraints?.value.is(value) === true;
}

function isCritical(c: Linted, name: ExtensionName): boolean {
  return c.extensions[name]?.isCritical === true;
}

function keepsValidity({ validity }: Linted, { validity: decided }: Intent): boolean {
  return (
    validity.notBefore.getTime() === decided.notBefore.getTime() &&
    validity.notAfter.getTime() === decided.notAfter.getTime()
  );
}

/**
 * The facts that the rules check, read from the bytes in one pass. A field with one right value is
 * compared in place: this code runs for every certificate, and copies would cost it most.
 */
type Linted = ReturnType<typeof readLinted>;

/** @throws DerError for anything but a TBSCertificate of version 3 with a key usage and alternative names. */
function readLinted(toBeSigned: Bytes, intent: Intent) {
  const fields = new DerReader(toBeSigned).enterLast(Tag.sequence);
  fields.literal(version3);
  const serialNumber = fields.enter(Tag.integer);
  const facts = {
    serialOctets: serialNumber.length,
    isSerialPositive: isPositive(serialNumber),
    hasSignersAlgorithm: isNext(fields, intent.issuer.signatureAlgorithm),
    hasEmptyIssuer: fields.isAt(emptySequence),
    hasSignersName: isNext(fields, intent.issuer.name),
    validity: readValidity(fields),
    hasEmptySubject: isNext(fields, emptySequence),
    hasRequestedKey: isNext(fields, intent.publicKey.spki),
    extensions: readExtensions(fields),
  };
  fields.finish();
  const { keyUsage, subjectAltName } = facts.extensions;
  return {
    ...facts,
    keyUsage: readKeyUsage(keyUsage),
    hasIntendedNamesOnly: hasOnlyNames(subjectAltName, intent),
  };
}

/** Whether the content octets of an INTEGER are a positive number: DER allows one leading zero, before a high bit. */
function isPositive(content: DerReader): boolean {
  if (content.isDone) return false;
  const first = content.octet();
  if (first !== 0) return first < 0x80;
  return !content.isDone && content.octet() >= 0x80;
}

/** Skips a SEQUENCE. @returns Whether it equals the expected one. */
function isNext(fields: DerReader, expected: Bytes): boolean {
  const isExpected = fields.isAt(expected);
  fields.skip(Tag.sequence);
  return isExpected;
}

/** The first octet of the bits, which holds every bit used here. X.690 §11.2.2 forbids trailing zero bits. */
function readKeyUsage(extension: Extension | undefined): number {
  if (!extension) throw new DerError("no key usage");
  const content = extension.value.fork().enterLast(Tag.bitString);
  const unusedBits = content.octet();
  const bits = content.octet();
  const lowestBit = bits & -bits;
  const isMinimal = bits !== 0 && unusedBits < 8 && lowestBit === 1 << unusedBits;
  if (!isMinimal || !content.isDone) throw new DerError("key usage bits not minimal");
  return bits;
}

const dnsName = Tag.contextPrimitive(2);

function hasOnlyNames(
  extension: Extension | undefined,
  { kind, spiffeId, dnsNames = [] }: Intent,
): boolean {
  if (!extension) throw new DerError("no subject alternative name");
  const names = extension.value.fork().enterLast(Tag.sequence);
  if (names.isDone) return false;
  if (kind !== "serving" && !isName(names, uriName, spiffeId)) return false;
  const isEndEntity = kind === "serving" || kind === "leaf";
  const expected = isEndEntity ? dnsNames : [];
  return expected.every((name) => isName(names, dnsName, name)) && names.isDone;
}

/** Skips a name. @returns Whether it equals the expected one. */
function isName(names: DerReader, kind: number, text: string): boolean {
  return names.nextIs(kind) && spells(names.enter(kind), text);
}

function spells(octets: DerReader, text: string): boolean {
  if (octets.length !== text.length) return false;
  for (let i = 0; i < text.length; i++) if (octets.octet() !== text.charCodeAt(i)) return false;
  return true;
}
