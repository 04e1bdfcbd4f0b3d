import { bytesEqual } from "../../pki/encoding/bytes.ts";
import { type IdentityProof, readIdentityProof } from "../../pki/x509/leaf/identity-proof.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { rejectCredential } from "../credential-rejection.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";
import { type ClientCertificate, malformed } from "./client-certificate.ts";

/** The last token's proof of a certificate's identity, and the end of the time in which it suffices. */
export interface LastProof {
  readonly proof: IdentityProof;
  readonly provedUntil: Date;
  readonly provedBy: TrustedIssuer;
}

/**
 * Judges a certificate of an own authority by the last token for its identity. The token's issuer must
 * still be configured, may vouch for the account now, and has proved it within its renewal limit.
 *
 * A certificate without a proof is older than proofs, or istiod's. It counts as proved at its notBefore,
 * by the first issuer that may vouch for it.
 *
 * @throws CaError `credential-rejected` (`form`, `impersonation`, `issuer`, `namespace`, `renewal`).
 */
export function requireLastProof(
  { certificate, account }: ClientCertificate,
  issuers: readonly TrustedIssuer[],
  now: Date,
): LastProof {
  const { extensions, validity } = certificate.toBeSigned;
  const proof = extensions.identityProof && parseProof(extensions.identityProof);
  if (proof?.isImpersonated) {
    throw rejectCredential("impersonation", "a node proxy's token stands behind the certificate");
  }
  const named = proof ? issuers.filter(({ digest }) => bytesEqual(digest, proof.issuer)) : issuers;
  if (named.length === 0) {
    throw rejectCredential(
      "issuer",
      "the issuer behind the certificate is not configured any more",
    );
  }
  const vouching = named.filter((issuer) => issuer.mayVouchFor(account));
  if (vouching.length === 0) {
    throw rejectCredential("namespace", "no issuer may vouch for this namespace any more");
  }
  const provedAt = proof?.provedAt ?? validity.notBefore;
  for (const provedBy of vouching) {
    const provedUntil = addSeconds(provedAt, provedBy.renewalSeconds);
    if (now < provedUntil) {
      const usual = { provedAt, issuer: provedBy.digest, isImpersonated: false };
      return { proof: proof ?? usual, provedUntil, provedBy };
    }
  }
  throw rejectCredential("renewal", "the last token for this identity is too long ago");
}

function parseProof(extension: Parameters<typeof readIdentityProof>[0]): IdentityProof {
  try {
    return readIdentityProof(extension);
  } catch (error) {
    throw malformed(error);
  }
}
