import type { SigningKey } from "../../crypto-provider.ts";
import { type Bytes, toHex } from "../../encoding/bytes.ts";
import { randomSerialNumber } from "../../encoding/serial-number.ts";
import { signatureAlgorithmOf } from "../../signature-algorithm.ts";
import { type Certificate, subjectKeyIdentifierOf } from "../certificate.ts";
import { signStructure } from "../certificate-signature.ts";
import {
  fallbackKeyIdentifier,
  keyIdentifier,
  type SubjectPublicKey,
} from "../subject-public-key.ts";
import { lint } from "./lint.ts";
import type { Intent, IssuerFields } from "./linted-certificate.ts";
import {
  createLeafProfile,
  type LeafContent,
  type LeafProfile,
  leafToBeSigned,
  type ServingContent,
  servingToBeSigned,
} from "./to-be-signed.ts";

/** A CA's certificate with its key open, and what every certificate that it signs repeats of it. */
export interface CertificateSigner {
  readonly certificate: Certificate;
  readonly signingKey: SigningKey;
  readonly profile: LeafProfile;
  readonly fields: IssuerFields;
}

/** A signed leaf. */
export interface Leaf {
  readonly der: Bytes;
  /** The content octets of the INTEGER in hexadecimal. */
  readonly serialNumber: string;
}

/** Nothing here checks that the key is the certificate's. */
export function createCertificateSigner(
  certificate: Certificate,
  publicKey: SubjectPublicKey,
  signingKey: SigningKey,
): CertificateSigner {
  const algorithm = signatureAlgorithmOf(publicKey);
  const { subject, validity } = certificate.toBeSigned;
  const identifier = subjectKeyIdentifierOf(certificate) ?? fallbackKeyIdentifier(publicKey);
  return {
    certificate,
    signingKey,
    profile: createLeafProfile(algorithm, subject, identifier),
    fields: {
      signatureAlgorithm: algorithm.identifier,
      name: subject,
      validity,
      keyIdentifier: identifier,
    },
  };
}

/**
 * Builds the to-be-signed bytes of an X509-SVID, lints those bytes and signs those bytes.
 *
 * @throws Error when the bytes break a clause, which is a mistake of this code and never the caller's.
 */
export async function issueLeaf(signer: CertificateSigner, content: LeafContent): Promise<Leaf> {
  const serialNumber = randomSerialNumber();
  const identifier = keyIdentifier(content.publicKey);
  const fields = { ...content, serialNumber, keyIdentifier: identifier };
  const intent: Intent = {
    kind: "leaf",
    ...content,
    keyIdentifier: identifier,
    issuer: signer.fields,
  };
  const der = await lintAndSign(leafToBeSigned(signer.profile, fields), intent, signer.signingKey);
  return { der, serialNumber: toHex(serialNumber) };
}

/**
 * Builds the to-be-signed bytes of a serving certificate, lints those bytes and signs those bytes.
 *
 * @throws Error when the bytes break a clause, for instance by a name that no host can have.
 */
export async function issueServingCertificate(
  signer: CertificateSigner,
  content: ServingContent,
): Promise<Leaf> {
  const serialNumber = randomSerialNumber();
  const identifier = keyIdentifier(content.publicKey);
  const fields = { ...content, serialNumber, keyIdentifier: identifier };
  const intent: Intent = {
    kind: "serving",
    spiffeId: "",
    ...content,
    keyIdentifier: identifier,
    issuer: signer.fields,
  };
  const toBeSigned = servingToBeSigned(signer.profile, fields);
  const der = await lintAndSign(toBeSigned, intent, signer.signingKey);
  return { der, serialNumber: toHex(serialNumber) };
}

/**
 * Lints to-be-signed bytes and signs them. No other code makes a certificate, so that nothing is signed
 * without having been linted.
 *
 * @throws Error when the bytes break a clause.
 */
export async function lintAndSign(
  toBeSigned: Bytes,
  intent: Intent,
  signingKey: SigningKey,
): Promise<Bytes> {
  const findings = lint(toBeSigned, intent);
  if (findings.length > 0) {
    throw new Error(`refusing to sign: ${findings.map(({ clause }) => clause).join("; ")}`);
  }
  return signStructure(toBeSigned, signingKey);
}
