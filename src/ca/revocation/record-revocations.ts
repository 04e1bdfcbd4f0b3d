import { maximumCertificates, type RevocationContent } from "../../custody/record-kinds.ts";
import { Mint } from "../mint.ts";

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
    await Mint.storeStatement(mint, "revocation", statement);
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
