import { parseForeignAuthority } from "../authority/foreign-authority.ts";
import { type Bytes, bytesEqual } from "../encoding/bytes.ts";
import type { Certificate } from "../x509/certificate.ts";
import { parseSubjectPublicKey, type SubjectPublicKey } from "../x509/subject-public-key.ts";
import { type CaClaims, readCaClaims } from "./ca-claims.ts";
import { isSignedByKey } from "./path-signature.ts";

/** The certificate of a CA, read to the last octet of each extension that decides about a path. */
export interface CaCertificate extends Certificate {
  /** For the operator: `cacerts/cert-chain.pem, certificate 2 (CN=Intermediate CA, O=Istio)`. */
  readonly title: string;
  readonly publicKey: SubjectPublicKey;
  readonly claims: CaClaims;
}

/**
 * Reads a certificate that somebody else made.
 *
 * @throws DerError for anything else; CaError `subject-key-unacceptable` for a key that no authority may have.
 */
export function parseCaCertificate(der: Bytes, title: string): CaCertificate {
  const certificate = parseForeignAuthority(der);
  const publicKey = parseSubjectPublicKey(certificate.toBeSigned.spki);
  return { ...certificate, title, publicKey, claims: readCaClaims(certificate.signedBytes) };
}

/** Whether name and signature match the issuer. */
export async function isIssuedBy(child: Certificate, issuer: CaCertificate): Promise<boolean> {
  return hasIssuerName(child, issuer) && isSignedByKey(child, issuer.publicKey);
}

/** Compares octets, as Go and webpki do: another encoding of a name is another name. */
export function hasIssuerName(child: Certificate, issuer: Certificate): boolean {
  return bytesEqual(child.toBeSigned.issuer, issuer.toBeSigned.subject);
}

/** Whether it names itself as its issuer. Its signature is another question. */
export const isSelfIssued = (certificate: Certificate): boolean =>
  hasIssuerName(certificate, certificate);

/** Whether two certificates name one CA: the same subject with the same key. */
export function isSameCa(one: CaCertificate, other: CaCertificate): boolean {
  return (
    bytesEqual(one.toBeSigned.subject, other.toBeSigned.subject) &&
    bytesEqual(one.publicKey.spki, other.publicKey.spki)
  );
}

/** The certificates in their order, without duplicates. */
export function withoutDuplicates<C extends Certificate>(certificates: readonly C[]): readonly C[] {
  return certificates.filter(
    ({ der }, i) => certificates.findIndex((other) => bytesEqual(other.der, der)) === i,
  );
}

export const isAmong = (certificate: Certificate, others: readonly Certificate[]): boolean =>
  others.some(({ der }) => bytesEqual(der, certificate.der));

export function isValidAt({ toBeSigned: { validity } }: Certificate, now: Date): boolean {
  return validity.notBefore <= now && now < validity.notAfter;
}
