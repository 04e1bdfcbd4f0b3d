import { concatBytes } from "../../../foundation/octets.ts";
import { type Bytes, Hex } from "../../encoding/bytes.ts";
import { Tag } from "../../encoding/der-reader.ts";
import { DerBuilder } from "../../encoding/internal/der-builder.ts";
import { derElement, derSequence } from "../../encoding/internal/der-writer.ts";
import { Oid } from "../../encoding/object-identifiers.ts";
import { extension } from "../certificate-extensions.ts";
import type { SignerFields } from "../leaf/to-be-signed.ts";

/** The reasons of a revocation. */
export const RevocationReason = {
  /**
   * The reasons for which a certificate of this CA is revoked (RFC 5280 §5.3.1), with their codes. A hold is
   * not among them, because its entry could leave the CRL before the certificate expires.
   */
  codes: {
    unspecified: 0,
    keyCompromise: 1,
    cACompromise: 2,
    affiliationChanged: 3,
    superseded: 4,
    cessationOfOperation: 5,
    privilegeWithdrawn: 9,
  } as const,
};

/** A reason for which this CA revokes certificates (RFC 5280 §5.3.1). */
export type RevocationReason = keyof typeof RevocationReason.codes;

/** One entry of a CRL. */
interface RevokedCertificate {
  /** The content octets of the INTEGER in lower-case hexadecimal. */
  readonly serialNumber: string;
  /** In whole seconds. */
  readonly revokedAt: Date;
  readonly reason: RevocationReason;
}

/** The fields that distinguish one CRL of an authority. */
export interface CrlContent {
  readonly thisUpdate: Date;
  readonly nextUpdate: Date;
  /** The CRL number: big-endian, not negative, of at most 20 octets. */
  readonly number: Bytes;
  readonly revoked: readonly RevokedCertificate[];
}

const enumerated = 0x0a;
const version2 = Hex.parseLiteral("020101");

/** Octets that suffice for the fields of a TBSCertList, except the names and the entries. */
const fixedRoom = 256;

/** Octets that suffice for an entry: a serial number of 20 octets, a time, a reason, and headers. */
const entryRoom = 64;

/** The encoded crlEntryExtensions of each reason; none for `unspecified`, for which RFC 5280 §5.3.1 wants no code. */
const entryExtensions: ReadonlyMap<string, Bytes> = new Map(
  Object.entries(RevocationReason.codes).map(([reason, code]) => {
    const value = derElement(enumerated, Uint8Array.of(code));
    const list = derSequence(extension(Oid.reasonCode, false, value));
    return [reason, code === 0 ? new Uint8Array() : list];
  }),
);

/**
 * The TBSCertList of an authority (RFC 5280 §5.1): version 2, with authority key identifier and CRL
 * number. An authority revokes only its own certificates.
 */
export function crlToBeSigned(
  { signatureAlgorithm, name, authorityKeyIdentifier }: SignerFields,
  { thisUpdate, nextUpdate, number, revoked }: CrlContent,
): Bytes {
  const names = name.length + authorityKeyIdentifier.length;
  const der = new DerBuilder(names + fixedRoom + revoked.length * entryRoom);
  // The builder writes from the last field to the first.
  const end = der.position;
  der.prependUnsignedInteger(number);
  der.close(Tag.octetString, end);
  der.prepend(Oid.crlNumber);
  der.close(Tag.sequence, end);
  der.prepend(authorityKeyIdentifier);
  der.close(Tag.sequence, end);
  der.close(Tag.contextConstructed(0), end);
  // RFC 5280 §5.1.2.6: an empty list is absent.
  if (revoked.length > 0) prependEntries(der, revoked);
  der.prependTime(nextUpdate);
  der.prependTime(thisUpdate);
  der.prepend(concatBytes(version2, signatureAlgorithm, name));
  der.close(Tag.sequence, end);
  return der.finish();
}

function prependEntries(der: DerBuilder, revoked: readonly RevokedCertificate[]): void {
  const listEnd = der.position;
  for (const entry of revoked.toReversed()) {
    const end = der.position;
    der.prepend(entryExtensions.get(entry.reason) ?? new Uint8Array());
    der.prependTime(entry.revokedAt);
    const serialEnd = der.position;
    der.prependHex(entry.serialNumber);
    der.close(Tag.integer, serialEnd);
    der.close(Tag.sequence, end);
  }
  der.close(Tag.sequence, listEnd);
}
