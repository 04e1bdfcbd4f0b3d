import type { RecordName } from "../../custody/authority-store.ts";
import {
  maximumCertificates,
  type RevocationContent,
  statementKinds,
} from "../../custody/record-kinds.ts";
import { type Mint, storeStatement } from "../mint.ts";

/** The most certificates that a store has as revoked: their CRLs have about ten megabytes. */
export const maximumRevoked = 200_000;

/** The most statements of a store, beside which all other records must fit. */
export const maximumStatements = 200;

/** Divides a revocation into statements that a store takes. */
export function statementsOf(revocation: RevocationContent): readonly RevocationContent[] {
  const certificates = [...revocation.certificates];
  const starts = Array.from(
    { length: Math.ceil(certificates.length / maximumCertificates) },
    (_, i) => i * maximumCertificates,
  );
  return starts.map((start) => ({
    ...revocation,
    certificates: new Map(certificates.slice(start, start + maximumCertificates)),
  }));
}

/** Records statements. Their certificates are on the next CRL, and are no credentials any more. */
export async function recordRevocations(
  mint: Mint,
  statements: readonly RevocationContent[],
): Promise<void> {
  for (const statement of statements) {
    await storeStatement(mint, "revocation", statement);
    mint.log.operation({
      event: "certificates-revoked",
      level: "warning",
      detail: "an operator revoked certificates",
      authority: statement.authority,
      certificates: statement.certificates.size,
      reason: statement.reason,
    });
  }
}

/** Twice the longest lifetime of a CRL: by then no CRL in use has an entry of the record. */
const restSeconds = 48 * 3600;

/** The records of revocations whose certificates have all expired, so long ago that no CRL needs them. */
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

/** The revocation of a certificate; `undefined` if it is not revoked. */
export function revocationOf(
  revocations: readonly RevocationContent[],
  { authority, serialNumber }: CertificateName,
): RevocationContent | undefined {
  return revocations.find(
    (each) => each.authority === authority && each.certificates.has(serialNumber),
  );
}
