import { Bytes, Hex } from "../../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../../encoding/der-reader.ts";
import { Oid } from "../../encoding/object-identifiers.ts";
import { type Certificate, readTime } from "../certificate.ts";
import { signStructure } from "../certificate-signature.ts";
import type { CertificateSigner } from "../leaf/certificate-signer.ts";
import type { IssuerFields } from "../leaf/to-be-signed.ts";
import { Crl } from "./crl.ts";
import { type CrlContent, crlToBeSigned, RevocationReason } from "./crl-to-be-signed.ts";

/** Writes and signs CRLs. */
export const UnsignedCrl = {
  /** Whether an authority may sign CRLs. Some imported authorities may not, such as those of istiod. */
  maySign: ({ certificate }: { readonly certificate: Certificate }): boolean =>
    Crl.issuer(certificate).maySign,

  /** The bytes that an authority is going to sign. */
  prepare(signer: CertificateSigner, content: CrlContent): UnsignedCrl {
    return { toBeSigned: crlToBeSigned(signer.fields, content), content };
  },

  /**
   * Lints the bytes of a CRL and signs those bytes. No other code makes a CRL.
   *
   * @throws Error when the bytes break a clause, or the authority may not sign CRLs.
   */
  async sign(signer: CertificateSigner, { toBeSigned, content }: UnsignedCrl): Promise<Bytes> {
    const findings = [
      ...(UnsignedCrl.maySign(signer) ? [] : ["RFC 5280 §4.2.1.3 cRLSign"]),
      ...lintCrl(toBeSigned, { ...content, issuer: signer.fields }),
    ];
    if (findings.length === 0) return signStructure(toBeSigned, signer.signingKey);
    throw new Error(`refusing to sign CRL ${Hex.format(content.number)}: ${findings.join("; ")}`);
  },
};

/** A CRL before its signature. Equal contents have equal bytes, whichever process writes them. */
interface UnsignedCrl {
  readonly toBeSigned: Bytes;
  readonly content: CrlContent;
}

/** The intended CRL. The linter compares the bytes with it. */
interface CrlIntent extends CrlContent {
  readonly issuer: IssuerFields;
}

type LintedCrl = ReturnType<typeof readLinted>;

type Rule = readonly [clause: string, keeps: (crl: LintedCrl, intent: CrlIntent) => boolean];

const rules: readonly Rule[] = [
  ["RFC 5280 §5.1.2.2 signature algorithm of the signer", (c) => c.hasSignersAlgorithm],
  ["RFC 5280 §5.1.2.3 issuer is the signer's subject", (c) => c.hasSignersName],
  ["RFC 5280 §5.1.2.4 thisUpdate as decided", (c, i) => isSame(c.thisUpdate, i.thisUpdate)],
  [
    "RFC 5280 §5.1.2.5 nextUpdate as decided, after thisUpdate",
    (c, i) => isSame(c.nextUpdate, i.nextUpdate) && c.thisUpdate < c.nextUpdate,
  ],
  ["RFC 5280 §5.1.2.6 the entries that were decided, and no other", (c) => c.hasIntendedEntries],
  ["RFC 5280 §5.2.1 authority key identifier, not critical", (c) => c.hasKeyIdentifier],
  ["RFC 5280 §5.2.3 the CRL number that was decided, not critical", (c) => c.hasNumber],
  [
    "RFC 5280 §5.2.3 a CRL number of 20 octets at most",
    (_, i) => i.number.length <= 20 && i.number.some((octet) => octet > 0),
  ],
  [
    "RFC 5280 §5.3 no certificate twice",
    (_, { revoked }) => new Set(revoked.map((each) => each.serialNumber)).size === revoked.length,
  ],
];

/**
 * Finds every clause of RFC 5280 §5 that the bytes of a TBSCertList break, and every difference from the
 * intent. An empty list permits signing.
 */
export function lintCrl(toBeSigned: Bytes, intent: CrlIntent): readonly string[] {
  try {
    const crl = readLinted(toBeSigned, intent);
    return rules.filter(([, keeps]) => !keeps(crl, intent)).map(([clause]) => clause);
  } catch (error) {
    if (error instanceof DerError) return [`RFC 5280 §5.1 ${error.message}`];
    throw error;
  }
}

// The linter repeats the writer's constants, because comparing the writer with itself would find nothing.
const version2 = Hex.parseLiteral("020101");
const enumerated = 0x0a;

const isSame = (a: Date, b: Date): boolean => a.getTime() === b.getTime();

function readLinted(toBeSigned: Bytes, intent: CrlIntent) {
  const fields = new DerReader(toBeSigned).enterLast(Tag.sequence);
  fields.literal(version2);
  const { issuer } = intent;
  const crl = {
    hasSignersAlgorithm: Bytes.equal(fields.element(Tag.sequence), issuer.signatureAlgorithm),
    hasSignersName: Bytes.equal(fields.element(Tag.sequence), issuer.name),
    thisUpdate: readTime(fields),
    nextUpdate: readTime(fields),
    hasIntendedEntries: readEntries(fields, intent),
  };
  const extensions = fields.enterLast(Tag.contextConstructed(0)).enterLast(Tag.sequence);
  const named = extensionValue(extensions, Oid.authorityKeyIdentifier).enter(Tag.sequence);
  const number = extensionValue(extensions, Oid.crlNumber).unsignedInteger();
  extensions.finish();
  const own = issuer.keyIdentifier;
  const hasKeyIdentifier =
    own !== undefined && named.contentIs(Tag.contextPrimitive(0), own) && named.isDone;
  return { ...crl, hasKeyIdentifier, hasNumber: isNumber(number, intent.number) };
}

/** Reads the value of the next extension. @throws DerError unless it has this identifier and is not critical. */
function extensionValue(extensions: DerReader, oid: Bytes): DerReader {
  const next = extensions.enter(Tag.sequence);
  next.literal(oid);
  const value = next.enter(Tag.octetString);
  next.finish();
  return value;
}

function isNumber(magnitude: Bytes, decided: Bytes): boolean {
  const first = decided.findIndex((octet) => octet > 0);
  return first >= 0 && Bytes.equal(magnitude, decided.subarray(first));
}

function readEntries(fields: DerReader, { revoked }: CrlIntent): boolean {
  if (!fields.nextIs(Tag.sequence)) return revoked.length === 0;
  const entries = fields.enter(Tag.sequence);
  if (entries.isDone) throw new DerError("an empty list of certificates");
  for (const { serialNumber, revokedAt, reason } of revoked) {
    const entry = entries.enter(Tag.sequence);
    const found = entry.fork().content(Tag.integer);
    const isPositive = entry.unsignedInteger().some((octet) => octet > 0);
    if (!isPositive || found.length > 20 || Hex.format(found) !== serialNumber) return false;
    if (!isSame(readTime(entry), revokedAt) || !hasReason(entry, reason)) return false;
  }
  return entries.isDone;
}

function hasReason(entry: DerReader, reason: RevocationReason): boolean {
  const code = RevocationReason.codes[reason];
  if (code === 0) return entry.isDone;
  const list = entry.enter(Tag.sequence);
  const [found, ...more] = extensionValue(list, Oid.reasonCode).content(enumerated);
  return found === code && more.length === 0 && list.isDone && entry.isDone;
}
