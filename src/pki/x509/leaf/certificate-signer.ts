import type { SigningKey } from "../../crypto-provider.ts";
import { type Bytes, Hex } from "../../encoding/bytes.ts";
import { SerialNumber } from "../../encoding/serial-number.ts";
import { SignatureAlgorithm } from "../../signature-algorithm.ts";
import { Certificate } from "../certificate.ts";
import { signStructure } from "../certificate-signature.ts";
import { SubjectPublicKey } from "../subject-public-key.ts";
import { type Intent, lint } from "./internal/lint.ts";
import {
  authorityKeyIdentifier,
  type IssuedFields,
  type LeafContent,
  leafToBeSigned,
  type ServingContent,
  type SignerFields,
  servingToBeSigned,
} from "./to-be-signed.ts";

/** A CA's certificate with its key open, and the fields that every certificate that it signs repeats. */
export interface CertificateSigner {
  readonly certificate: Certificate;
  readonly signingKey: SigningKey;
  readonly fields: SignerFields;
}

/** A signed leaf. */
export interface Leaf {
  readonly der: Bytes;
  /** The content octets of the INTEGER in hexadecimal. */
  readonly serialNumber: string;
}

/** Creates signers. */
export const CertificateSigner = {
  /** Creates a signer, also for a certificate without a key identifier. It does not check that the key is the certificate's. */
  create(
    certificate: Certificate,
    publicKey: SubjectPublicKey,
    signingKey: SigningKey,
  ): CertificateSigner {
    const { subject, validity } = certificate.toBeSigned;
    const keyIdentifier =
      Certificate.subjectKeyIdentifier(certificate) ??
      SubjectPublicKey.fallbackKeyIdentifier(publicKey);
    const fields = {
      signatureAlgorithm: SignatureAlgorithm.of(publicKey).identifier,
      name: subject,
      validity,
      keyIdentifier,
      authorityKeyIdentifier: authorityKeyIdentifier(keyIdentifier),
    };
    return { certificate, signingKey, fields };
  },
};

/** Issues leaves. */
export const Leaf = {
  /** Lints and signs an X509-SVID. @throws Error if the bytes break a clause. */
  issue: (signer: CertificateSigner, content: LeafContent): Promise<Leaf> =>
    issue(signer, { kind: "leaf", ...content }, leafToBeSigned),

  /** Lints and signs a serving certificate. @throws Error if the bytes break a clause. */
  issueServing: (signer: CertificateSigner, content: ServingContent): Promise<Leaf> =>
    issue(signer, { kind: "serving", spiffeId: "", ...content }, servingToBeSigned),
};

/**
 * Builds to-be-signed bytes, lints those bytes and signs those bytes.
 *
 * @throws Error when the bytes break a clause: by a name that no host can have, or by a mistake of this code.
 */
export async function issue<T extends Omit<Intent, "keyIdentifier" | "issuer">>(
  { fields, signingKey }: CertificateSigner,
  content: T,
  write: (issuer: SignerFields, fields: T & IssuedFields) => Bytes,
): Promise<Leaf> {
  const serialNumber = SerialNumber.random();
  const keyIdentifier = SubjectPublicKey.keyIdentifier(content.publicKey);
  const toBeSigned = write(fields, { ...content, serialNumber, keyIdentifier });
  const intent = { ...content, keyIdentifier, issuer: fields };
  const der = await lintAndSign(toBeSigned, intent, signingKey);
  return { der, serialNumber: Hex.format(serialNumber) };
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
    throw new Error(`refusing to sign: ${findings.join("; ")}`);
  }
  return signStructure(toBeSigned, signingKey);
}
