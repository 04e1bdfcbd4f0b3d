import { RevocationContent } from "../../custody/record-kinds.ts";
import { Mint } from "../mint.ts";

/** Revocations as the statements that a store has of them. */
export const RevocationStatements = {
  /** The most revoked certificates of a store: their CRLs have about ten megabytes. */
  maximumRevoked: 200_000,

  /** The most statements of revocations in a store, so that there is room for all other records. */
  maximum: 200,

  /** Divides a revocation into statements that a store takes. */
  of(revocation: RevocationContent): readonly RevocationContent[] {
    const certificates = [...revocation.certificates];
    const starts = Array.from(
      { length: Math.ceil(certificates.length / RevocationContent.maximumCertificates) },
      (_, i) => i * RevocationContent.maximumCertificates,
    );
    return starts.map((start) => ({
      ...revocation,
      certificates: new Map(
        certificates.slice(start, start + RevocationContent.maximumCertificates),
      ),
    }));
  },

  /** Records statements. Then the next CRL has their certificates, which are no longer accepted as credentials. */
  async record(mint: Mint, statements: readonly RevocationContent[]): Promise<void> {
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
  },
};
