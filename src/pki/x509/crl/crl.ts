import { Bytes, Hex } from "../../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../../encoding/der-reader.ts";
import { Oid } from "../../encoding/object-identifiers.ts";
import { Certificate, readSigned, readTime, type Signed } from "../certificate.ts";
import { nextExtension } from "../certificate-extensions.ts";

/** A CRL (RFC 5280 §5.1). */
export interface Crl extends Signed, CrlExtensions {
  readonly der: Bytes;
  readonly issuer: Bytes;
  readonly thisUpdate: Date;
  /** `undefined` if the CRL has no nextUpdate, which RFC 5280 §5.1.2.5 requires of CAs. */
  readonly nextUpdate: Date | undefined;
  /** A reader at the first entry. Fork it to read. `undefined` where nothing is revoked. */
  readonly entries: DerReader | undefined;
}

interface CrlExtensions {
  /** The key identifier of the issuer. */
  readonly authorityKeyIdentifier?: Bytes | undefined;
  readonly number?: bigint;
  /** Whether an unknown extension is critical: then it may be about other certificates than it seems (RFC 5280 §5.2). */
  readonly hasUnknownCritical: boolean;
}

const version2 = Hex.parseLiteral("020101");

/** Parses CRLs (RFC 5280 §5.1), and finds serial numbers in them. */
export const Crl = {
  /**
   * Reads a CRL of version 1 or 2 without its entries, of which there may be a hundred thousand.
   *
   * @throws DerError for anything else.
   */
  parse(der: Bytes): Crl {
    const signed = readSigned(der);
    const list = new DerReader(signed.signedBytes).enter(Tag.sequence);
    if (list.nextIs(Tag.integer)) list.literal(version2);
    if (!Bytes.equal(list.element(Tag.sequence), signed.signatureAlgorithm)) {
      throw new DerError("the signature algorithm differs inside and outside (RFC 5280 §5.1.1.2)");
    }
    const crl = {
      ...signed,
      der,
      issuer: list.element(Tag.sequence),
      thisUpdate: readTime(list),
      nextUpdate: isAtTime(list) ? readTime(list) : undefined,
      entries: list.nextIs(Tag.sequence) ? list.enter(Tag.sequence) : undefined,
      ...readCrlExtensions(list),
    };
    list.finish();
    return crl;
  },

  /** Whether a verifier accepts the CRL at this time: OpenSSL and BoringSSL refuse it before and after. */
  isCurrentAt({ thisUpdate, nextUpdate }: Crl, now: Date): boolean {
    return thisUpdate <= now && (nextUpdate === undefined || now < nextUpdate);
  },

  /**
   * Reads what identifies a CA as the issuer of CRLs, and whether its key may sign them. A certificate without the
   * extension keyUsage may (RFC 5280 §4.2.1.3).
   * @throws DerError for a malformed extension.
   */
  issuer(certificate: Certificate): CrlIssuer {
    const {
      subject,
      extensions: { keyUsage },
    } = certificate.toBeSigned;
    const keyIdentifier = Certificate.subjectKeyIdentifier(certificate);
    const [, bits = 0] = keyUsage?.value.fork().content(Tag.bitString) ?? [0, cRLSign];
    return { subject, keyIdentifier, maySign: (bits & cRLSign) !== 0 };
  },

  /**
   * Whether a CRL names this CA as its issuer, by name and, if both have one, key identifier. Its signature is not
   * verified.
   */
  isOf(crl: Crl, { subject, keyIdentifier }: CrlIssuer): boolean {
    const { issuer, authorityKeyIdentifier: named } = crl;
    if (!Bytes.equal(issuer, subject)) return false;
    return named === undefined || keyIdentifier === undefined || Bytes.equal(named, keyIdentifier);
  },

  /**
   * Finds which of the serial numbers a CRL contains. One pass suffices for all identities of a node.
   *
   * @param serialNumbers In lower-case hexadecimal, without leading zero octets.
   * @throws DerError for a broken entry.
   */
  named({ entries }: Crl, serialNumbers: ReadonlySet<string>): readonly string[] {
    const named: string[] = [];
    const list = entries?.fork();
    while (list && !list.isDone) {
      const serialNumber = Hex.format(list.enter(Tag.sequence).unsignedInteger());
      if (serialNumbers.has(serialNumber)) named.push(serialNumber);
    }
    return named;
  },
};

const isAtTime = (list: DerReader): boolean =>
  list.nextIs(Tag.utcTime) || list.nextIs(Tag.generalizedTime);

function readCrlExtensions(list: DerReader): CrlExtensions {
  let found: CrlExtensions = { hasUnknownCritical: false };
  if (list.isDone) return found;
  const extensions = list.enter(Tag.contextConstructed(0)).enterLast(Tag.sequence);
  while (!extensions.isDone) {
    const { oid, isCritical, value } = nextExtension(extensions);
    if (oid.isAt(Oid.crlNumber)) found = { ...found, number: readNumber(value) };
    else if (oid.isAt(Oid.authorityKeyIdentifier)) {
      found = { ...found, authorityKeyIdentifier: readKeyIdentifier(value) };
    } else if (isCritical) found = { ...found, hasUnknownCritical: true };
  }
  return found;
}

/** Reads a CRL number of at most 20 octets (RFC 5280 §5.2.3). */
function readNumber(value: DerReader): bigint {
  const octets = value.unsignedInteger();
  value.finish();
  if (octets.length > 20) throw new DerError("a number of more than 20 octets (RFC 5280 §5.2.3)");
  return BigInt(`0x${Hex.format(octets)}`);
}

function readKeyIdentifier(value: DerReader): Bytes | undefined {
  const fields = value.enterLast(Tag.sequence);
  const tag = Tag.contextPrimitive(0);
  return fields.nextIs(tag) ? fields.content(tag) : undefined;
}

/** A CA as its CRLs name it. */
interface CrlIssuer {
  readonly subject: Bytes;
  readonly keyIdentifier: Bytes | undefined;
  /** Whether its key usage has cRLSign, or is absent. Verifiers accept no CRL of another CA (RFC 5280 §6.3.3 f). */
  readonly maySign: boolean;
}

const cRLSign = 0x02;
