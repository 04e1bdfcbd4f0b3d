import { Bytes, Hex } from "../../encoding/bytes.ts";
import { type DerReader, Tag } from "../../encoding/der-reader.ts";
import type { Certificate } from "../certificate.ts";
import { Crl } from "./crl.ts";

/** The certificates that a CRL names. */
export interface CrlEntries {
  readonly issuer: Bytes;
  /** The content octets of the serial numbers, in hexadecimal. */
  readonly serialNumbers: ReadonlySet<string>;
}

/** Reads the entries of CRLs. */
export const CrlEntries = {
  /**
   * Reads a CRL. Its signature is not verified: an operator's file that names a certificate as revoked
   * is reason enough to refuse the certificate.
   *
   * @throws DerError
   */
  parse(der: Bytes): CrlEntries {
    const { issuer, entries } = Crl.parse(der);
    return { issuer, serialNumbers: new Set(entries && readEntries(entries.fork())) };
  },

  /** Whether one of the CRLs names this certificate. */
  revoke(
    { toBeSigned: { issuer, serialNumber } }: Certificate,
    crls: readonly CrlEntries[],
  ): boolean {
    const number = Hex.format(serialNumber);
    return crls.some((crl) => Bytes.equal(crl.issuer, issuer) && crl.serialNumbers.has(number));
  },
};

function readEntries(entries: DerReader): string[] {
  const serialNumbers: string[] = [];
  while (!entries.isDone) {
    const entry = entries.enter(Tag.sequence);
    serialNumbers.push(Hex.format(entry.content(Tag.integer)));
    entry.skipAll();
  }
  return serialNumbers;
}
