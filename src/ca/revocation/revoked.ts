import type { RevocationContent } from "../../custody/record-kinds.ts";

/** A certificate, by the authority that signed it and the serial number (content octets in hexadecimal). */
export interface CertificateName {
  readonly authority: string;
  readonly serialNumber: string;
}

/** The revocation of a certificate; `undefined` if it is not revoked. */
export function revocationOf(
  revocations: readonly RevocationContent[],
  { authority, serialNumber }: CertificateName,
): RevocationContent | undefined {
  return revocations.find(
    (each) => each.authority === authority && each.certificates.has(serialNumber),
  );
}
