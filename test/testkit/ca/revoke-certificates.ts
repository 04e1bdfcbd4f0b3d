import type { Composition } from "../../../src/config/composition.ts";
import { RevocationContent } from "../../../src/custody/record-kinds.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";

/** Revokes certificates of the signing authority in the store, as an operator's verb does. */
export async function revokeCertificates(
  { certificateAuthority, mint }: Pick<Composition, "certificateAuthority" | "mint">,
  serialNumbers: readonly string[],
  now: Date,
): Promise<void> {
  const { issuer } = await certificateAuthority.issuance.authorities.at(now);
  if (!issuer) throw new Error("no authority signs");
  const revokedAt = wholeSeconds(now);
  const end = addSeconds(revokedAt, 24 * 3600).getTime() / 1000;
  for (let i = 0; i < serialNumbers.length; i += RevocationContent.maximumCertificates) {
    const part = serialNumbers.slice(i, i + RevocationContent.maximumCertificates);
    const content = {
      authority: issuer.authority.id,
      revokedAt,
      knownFrom: addSeconds(revokedAt, mint.phaseLengths.propagationSeconds),
      reason: "keyCompromise" as const,
      certificates: new Map(part.map((each) => [contentOctets(each), end] as const)),
    };
    await mint.store.put(await Statement.seal("revocation", content, mint));
  }
}

/** The serial number of Node's X509Certificate as the content octets of a positive INTEGER. */
function contentOctets(serialNumber: string): string {
  const hex = serialNumber.toLowerCase();
  return /^[89a-f]/.test(hex) ? `00${hex}` : hex;
}
