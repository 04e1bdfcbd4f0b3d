import { X509Certificate } from "node:crypto";
import {
  type AuthorityCertificates,
  createSigningAuthority,
} from "../../pki/authority/signing-authority.ts";
import { type TrustDomain, workloadSpiffeId } from "../../pki/spiffe-id.ts";
import { createIssuer, issueLeaf, type Leaf } from "../../pki/x509/issuer.ts";
import { leafValidity } from "../../pki/x509/validity.ts";

/**
 * Whether a leaf for nobody, signed with this key, verifies with this authority: only what has signed
 * once is believed to be able to. A key may claim a public key that is not its own.
 *
 * @throws Error for a leaf that the linter refuses: a mistake of the rules, which let the authority pass.
 */
export async function verifiesTrialLeaf(
  certificates: AuthorityCertificates,
  privateKey: CryptoKey,
  trustDomain: TrustDomain,
  now: Date,
): Promise<boolean> {
  try {
    const { der } = await issueTrialLeaf(certificates, privateKey, trustDomain, now);
    const { publicKey } = new X509Certificate(certificates.certificate);
    return new X509Certificate(der).verify(publicKey);
  } catch (error) {
    // OpenSSL refuses to sign with an RSA key whose numbers do not belong together.
    if (error instanceof DOMException && error.name === "OperationError") return false;
    throw error;
  }
}

async function issueTrialLeaf(
  certificates: AuthorityCertificates,
  privateKey: CryptoKey,
  trustDomain: TrustDomain,
  now: Date,
): Promise<Leaf> {
  const schedule = { publishedFrom: now, signsFrom: now, signsUntil: now, retiresAt: now };
  const authority = await createSigningAuthority(certificates, schedule);
  const { validity } = authority.certificate.toBeSigned;
  const oneSecond = { defaultSeconds: 1, maximumSeconds: 1 };
  return issueLeaf(createIssuer(authority, privateKey), {
    spiffeId: workloadSpiffeId(trustDomain, { namespace: "rampart", name: "import" }),
    publicKey: authority.publicKey,
    validity: leafValidity(1n, oneSecond, validity, now),
  });
}
