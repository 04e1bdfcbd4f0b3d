import { DnsName } from "../../../../foundation/addresses.ts";
import { Bytes, Hex } from "../../../encoding/bytes.ts";
import { DerError, Tag } from "../../../encoding/der-reader.ts";
import { SpiffeId } from "../../../spiffe-id.ts";
import type { Interval } from "../../certificate.ts";
import type { Extension, ExtensionName } from "../../certificate-extensions.ts";
import type { Validity } from "../../validity.ts";
import { IdentityProof } from "../identity-proof.ts";
import { emptySequence, type Intent, type Linted, readLinted } from "./linted-certificate.ts";

/** A clause that the to-be-signed bytes break. */
export interface BrokenClause {
  readonly clause: string;
}

type Rule = readonly [clause: string, keeps: (c: Linted, intent: Intent) => boolean];

/** KeyUsage bits (RFC 5280 §4.2.1.3) as they are in the first octet: bit 0 is the highest. */
const Usage = {
  digitalSignature: 0x80,
  keyEncipherment: 0x20,
  keyCertSign: 0x04,
  cRLSign: 0x02,
} as const;

const certificateAuthority = Hex.parseLiteral("30030101ff");

const everyCertificate: readonly Rule[] = [
  ["RFC 5280 §4.1.2.2 serial positive", (c) => c.isSerialPositive],
  ["RFC 5280 §4.1.2.2 serial of 20 octets at most", (c) => c.serialOctets <= 20],
  ["serial with 128 random bits", (c) => c.serialOctets >= 17],
  ["RFC 5280 §4.1.2.3 signature algorithm of the signer", (c) => c.hasSignersAlgorithm],
  ["RFC 5280 §4.1.2.4 issuer not empty", (c) => !c.hasEmptyIssuer],
  ["RFC 5280 §4.1.2.4 issuer is the signer's subject", (c) => c.hasSignersName],
  ["RFC 5280 §4.1.2.5 validity as decided", (c, i) => isInterval(c.interval, i.validity)],
  ["RFC 5280 §4.1.2.5 validity not empty", (c) => c.interval.notBefore < c.interval.notAfter],
  [
    "not valid beyond the signer",
    (c, i) => c.interval.notAfter <= i.issuer.validity.notAfter.getTime(),
  ],
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

const spiffeIdOnly: Rule = [
  "X509-SVID §2 exactly one name, the SPIFFE ID",
  (c) => c.hasIntendedNamesOnly,
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
  spiffeIdOnly,
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
      (found?.isCritical === true && hasExactly(found, nameConstraints)),
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
export function lint(toBeSigned: Bytes, intent: Intent): readonly BrokenClause[] {
  try {
    const certificate = readLinted(toBeSigned, intent);
    const findings: BrokenClause[] = [];
    for (const [clause, passes] of rules[intent.kind]) {
      if (!passes(certificate, intent)) findings.push({ clause });
    }
    return findings;
  } catch (error) {
    // RFC 5280 §4.1 demands DER, so a departure from DER is a finding like the others.
    if (error instanceof DerError) return [{ clause: `RFC 5280 §4.1 ${error.message}` }];
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
  return extension?.isCritical === false && hasExactly(extension, purposes);
}

// The linter repeats the writer's constants, because comparing the writer with itself would find nothing.
const serverAndClientAuth = Hex.parseLiteral("301406082b0601050507030106082b06010505070302");
const serverAuth = Hex.parseLiteral("300a06082b06010505070301");

function hasBasicConstraints({ extensions }: Linted, value: Bytes): boolean {
  const extension = extensions.basicConstraints;
  return extension !== undefined && hasExactly(extension, value);
}

function hasExactly({ value }: Extension, expected: Bytes): boolean {
  if (!value.isAt(expected)) return false;
  const reader = value.fork();
  reader.literal(expected);
  return reader.isDone;
}

function isCritical(c: Linted, name: ExtensionName): boolean {
  return c.extensions[name]?.isCritical === true;
}

function isInterval(interval: Interval, { notBefore, notAfter }: Validity): boolean {
  return interval.notBefore === notBefore.getTime() && interval.notAfter === notAfter.getTime();
}
