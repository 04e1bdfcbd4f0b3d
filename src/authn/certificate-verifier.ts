import { rejectCredential } from "../foundation/errors.ts";
import type { SigningAuthority } from "../pki/authority/signing-authority.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import { Bytes, Hex } from "../pki/encoding/bytes.ts";
import { Tag } from "../pki/encoding/der-reader.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { Certificate } from "../pki/x509/certificate.ts";
import { isSignedWith } from "../pki/x509/certificate-signature.ts";
import { IdentityProof } from "../pki/x509/leaf/identity-proof.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import type { Caller, CallerCertificate } from "./caller.ts";
import {
  type ClientCertificate,
  malformed,
  parseClientCertificate,
  refusingDerErrors,
} from "./client-certificate.ts";
import type { TokenIssuer } from "./token-issuer.ts";

/**
 * Loads the authorities whose leaves are accepted as credentials at an instant: those of the mesh itself that are in
 * the trust bundle and were never tainted. Leaves of additional roots and of named signers are not accepted.
 *
 * @throws CaError `store-unreachable`.
 */
type CredentialAuthorities = (now: Date) => Promise<readonly SigningAuthority[]>;

/**
 * Whether an operator has revoked a certificate of an own authority.
 *
 * @throws CaError `store-unreachable`.
 */
export type IsRevoked = (certificate: CallerCertificate, now: Date) => Promise<boolean>;

/** The rules for a client certificate, and the authorities and issuers that they need. */
interface CertificateTrust {
  readonly trustDomain: TrustDomain;
  readonly vouchingAt: CredentialAuthorities;
  readonly isRevoked: IsRevoked;
  readonly issuers: readonly TokenIssuer[];
  readonly cryptoProvider: CryptoProvider;
}

/**
 * Authenticates the caller that presents a client certificate, as Istio's `ClientCertAuthenticator` does. istiod takes
 * every name of the certificate for the caller's; here only the SPIFFE ID is.
 *
 * @param der A certificate whose holder has shown, by TLS or a gateway, to have its key. Nothing else in it is
 *   verified.
 * @throws CaError `credential-rejected` (`form`, `time`, `subject`, `authority`, `revoked`, and the checks of {@link
 *   requireLastProof}), `store-unreachable`.
 */
export type CertificateVerifier = (der: Bytes, now: Date) => Promise<Caller>;

/** Verifies client certificates. */
export const CertificateVerifier = {
  /**
   * Accepts a certificate if one of this CA's own authorities has signed it and nobody has revoked it. The issuer of the
   * last token for its identity must be able to vouch for its account now, and must have done so recently. A verification
   * by TLS, the edge or a gateway does not suffice, because these accept every root of the mesh.
   */
  create(trust: CertificateTrust): CertificateVerifier {
    const { trustDomain, vouchingAt, issuers } = trust;
    return async (der, now) => {
      const leaf = parseClientCertificate(der, trustDomain, now);
      const { certificate, spiffeId, account } = leaf;
      const signer = await signerOf(certificate, await vouchingAt(now), trust.cryptoProvider);
      const serialNumber = Hex.format(certificate.toBeSigned.serialNumber);
      const shown = { serialNumber, authority: signer.id };
      if (await trust.isRevoked(shown, now)) {
        throw rejectCredential("revoked", "an operator has revoked the certificate");
      }
      return { spiffeId, account, ...requireLastProof(leaf, issuers, now), certificate: shown };
    };
  },

  /**
   * Whether a certificate names this authority as its issuer, by name and, if both have one, key identifier. If not, its
   * signature need not be verified.
   *
   * @throws DerError
   */
  namesAuthority({ toBeSigned }: Certificate, authority: SigningAuthority): boolean {
    if (!Bytes.equal(toBeSigned.issuer, authority.certificate.toBeSigned.subject)) return false;
    const named = toBeSigned.extensions.authorityKeyIdentifier?.value.fork().enter(Tag.sequence);
    const own = Certificate.subjectKeyIdentifier(authority.certificate);
    const keyIdentifier = Tag.contextPrimitive(0);
    if (!own || !named?.nextIs(keyIdentifier)) return true;
    return Bytes.equal(named.content(keyIdentifier), own);
  },
};

async function signerOf(
  certificate: Certificate,
  authorities: readonly SigningAuthority[],
  cryptoProvider: CryptoProvider,
): Promise<SigningAuthority> {
  let fault: unknown;
  for (const authority of authorities) {
    try {
      if (!CertificateVerifier.namesAuthority(certificate, authority)) continue;
      if (await isSignedWith(certificate, authority.publicKey, cryptoProvider)) return authority;
    } catch (error) {
      // An authority of the same name may have another kind of key, for which the signature is malformed.
      fault ??= malformed(error);
    }
  }
  if (fault !== undefined) throw fault;
  throw rejectCredential("authority", "no authority that vouches has signed the certificate");
}

/**
 * Refuses a certificate of this CA if the last token behind it no longer suffices. The token's issuer must be configured,
 * with the entry of `subjects` that gave the account, if one did. The issuer must be allowed to vouch for the account now,
 * and must have authenticated it within the issuer's renewal limit.
 *
 * A certificate without an identity proof was issued before Rampart wrote proofs, or by istiod. It is taken as authenticated at its
 * notBefore, by the first issuer of ServiceAccounts that may vouch for it.
 *
 * @throws CaError `credential-rejected` (`form`, `impersonation`, `issuer`, `namespace`, `renewal`).
 */
function requireLastProof(
  { certificate, account }: ClientCertificate,
  issuers: readonly TokenIssuer[],
  now: Date,
): Pick<Caller, "proof" | "provedUntil" | "provedBy" | "mayBeProvedBy"> {
  const { validity, extensions } = certificate.toBeSigned;
  const { identityProof } = extensions;
  const proof = identityProof && refusingDerErrors(() => IdentityProof.read(identityProof));
  if (proof?.isImpersonated) {
    throw rejectCredential("impersonation", "another account's token is behind the certificate");
  }
  const named = issuers.filter(({ digest, subjects }) => {
    if (!proof) return !subjects;
    return subjects ? subjects.hasEntry(proof.issuer) : Bytes.equal(digest, proof.issuer);
  });
  if (named.length === 0) {
    throw rejectCredential(
      "issuer",
      "the issuer behind the certificate, or its entry of subjects, is not configured any more",
    );
  }
  const vouching = named.filter((issuer) => issuer.mayVouchFor(account));
  const [provedBy] = vouching;
  if (!provedBy) {
    throw rejectCredential("namespace", "no issuer may vouch for this namespace any more");
  }
  const provedAt = proof?.provedAt ?? validity.notBefore;
  const provedUntil = addSeconds(provedAt, provedBy.renewalSeconds);
  if (now >= provedUntil) {
    throw rejectCredential("renewal", "the last token for this identity is too long ago");
  }
  const mayBeProvedBy = proof || vouching.length === 1 ? undefined : vouching;
  return {
    proof: proof ?? { provedAt, issuer: provedBy.digest, isImpersonated: false },
    provedUntil,
    provedBy,
    ...(mayBeProvedBy && { mayBeProvedBy }),
  };
}
