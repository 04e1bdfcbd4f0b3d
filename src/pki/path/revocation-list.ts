import { type Bytes, bytesEqual, toHex } from "../encoding/bytes.ts";
import { type DerReader, Tag } from "../encoding/der-reader.ts";
import type { Certificate } from "../x509/certificate.ts";
import { parseCertificateList } from "../x509/crl/certificate-list.ts";

/** The parts of a CRL (RFC 5280 §5.1) that decide whether it names a certificate. */
export interface RevocationList {
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
export function parseRevocationList(der: Bytes): RevocationList {
  const { issuer, entries } = parseCertificateList(der);
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

/** Whether one of the lists names this certificate. */
export function isRevoked(
  { toBeSigned: { issuer, serialNumber } }: Certificate,
  lists: readonly RevocationList[],
): boolean {
  const number = toHex(serialNumber);
  return lists.some((list) => bytesEqual(list.issuer, issuer) && list.serialNumbers.has(number));
}
