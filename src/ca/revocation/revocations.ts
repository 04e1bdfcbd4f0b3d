import type { RecordName } from "../../custody/authority-store.ts";
import { type RevocationContent, statementKinds } from "../../custody/record-kinds.ts";

/** Twice the longest lifetime of a CRL: by then no CRL in use has an entry of the record. */
const restSeconds = 48 * 3600;

/**
 * Finds the records of revocations that can be deleted: all their certificates expired so long ago that no CRL needs
 * them.
 */
export function expiredRevocations(
  revocations: readonly RevocationContent[],
  propagationSeconds: number,
  now: Date,
): readonly (RecordName & { readonly kind: "revocation" })[] {
  const end = now.getTime() / 1000 - restSeconds - 2 * propagationSeconds;
  return revocations
    .filter(({ certificates }) => Math.max(...certificates.values()) < end)
    .map((each) => ({ kind: "revocation", id: statementKinds.revocation.idOf(each) }));
}

/** A certificate, by the authority that signed it and the serial number (content octets in hexadecimal). */
interface CertificateName {
  readonly authority: string;
  readonly serialNumber: string;
}

/** Finds the revocation of a certificate by its authority and serial number; `undefined` if it is not revoked. */
export function revocationOf(
  revocations: readonly RevocationContent[],
  { authority, serialNumber }: CertificateName,
): RevocationContent | undefined {
  return revocations.find(
    (each) => each.authority === authority && each.certificates.has(serialNumber),
  );
}
