import { X509Certificate } from "node:crypto";
import {
  type AuthorityCertificates,
  createIssuer,
  createSigningAuthority,
} from "../../../pki/authority/signing-authority.ts";
import { signatureAlgorithmOf } from "../../../pki/signature-algorithm.ts";
import { type TrustDomain, workloadSpiffeId } from "../../../pki/spiffe-id.ts";
import { webSigningKey } from "../../../pki/web-crypto-provider.ts";
import { issueLeaf, type Leaf } from "../../../pki/x509/leaf/certificate-signer.ts";
import { issuerDigest } from "../../../pki/x509/leaf/identity-proof.ts";
import { leafValidity, wholeSeconds } from "../../../pki/x509/validity.ts";

/**
 * Whether a trial leaf, signed with this key, verifies under this authority. A key file may name a public
 * key that is not its own, so only a signature proves the pair.
 *
 * @throws Error for a leaf that the linter refuses: then a certificate rule is missing.
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
    // OpenSSL refuses to sign with an RSA key whose numbers contradict each other.
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
  const signingKey = webSigningKey(privateKey, signatureAlgorithmOf(authority.publicKey));
  return issueLeaf(createIssuer(authority, signingKey), {
    spiffeId: workloadSpiffeId(trustDomain, { namespace: "rampart", name: "import" }),
    publicKey: authority.publicKey,
    validity: leafValidity(1n, oneSecond, validity, now),
    proof: { provedAt: wholeSeconds(now), issuer: issuerDigest(""), isImpersonated: false },
  });
}
