import { type Bytes, bytesEqual, toHex } from "../../encoding/bytes.ts";
import { type DerReader, Tag } from "../../encoding/der-reader.ts";
import type { Certificate } from "../certificate.ts";
import { Crl } from "./crl.ts";

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
  const { issuer, entries } = Crl.parse(der);
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
