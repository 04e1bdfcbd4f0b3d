import type { SigningKey } from "../../crypto-provider.ts";
import { type Bytes, Hex } from "../../encoding/bytes.ts";
import { SerialNumber } from "../../encoding/serial-number.ts";
import { SignatureAlgorithm } from "../../signature-algorithm.ts";
import { Certificate } from "../certificate.ts";
import { signStructure } from "../certificate-signature.ts";
import { SubjectPublicKey } from "../subject-public-key.ts";
import { lint } from "./internal/lint.ts";
import type { Intent, IssuerFields } from "./internal/linted-certificate.ts";
import {
  createLeafProfile,
  type IssuedFields,
  type LeafContent,
  type LeafProfile,
  leafToBeSigned,
  type ServingContent,
  servingToBeSigned,
} from "./to-be-signed.ts";

/** A CA's certificate with its key open, and the fields that every certificate that it signs repeats. */
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

/** Creates signers. */
export const CertificateSigner = {
  /** Creates a signer, also for a certificate without a key identifier. It does not check that the key is the certificate's. */
  create(
    certificate: Certificate,
    publicKey: SubjectPublicKey,
    signingKey: SigningKey,
  ): CertificateSigner {
    const algorithm = SignatureAlgorithm.of(publicKey);
    const { subject, validity } = certificate.toBeSigned;
    const identifier =
      Certificate.subjectKeyIdentifier(certificate) ??
      SubjectPublicKey.fallbackKeyIdentifier(publicKey);
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
  },
};

/** Issues leaves. */
export const Leaf = {
  /** Lints and signs an X509-SVID. @throws Error if the bytes break a clause. */
  issue: (signer: CertificateSigner, content: LeafContent): Promise<Leaf> =>
    issue(signer, { kind: "leaf", ...content }, (issued) =>
      leafToBeSigned(signer.profile, { ...content, ...issued }),
    ),

  /** Lints and signs a serving certificate. @throws Error if the bytes break a clause. */
  issueServing: (signer: CertificateSigner, content: ServingContent): Promise<Leaf> =>
    issue(signer, { kind: "serving", spiffeId: "", ...content }, (issued) =>
      servingToBeSigned(signer.profile, { ...content, ...issued }),
    ),
};

/**
 * Builds to-be-signed bytes, lints those bytes and signs those bytes.
 *
 * @throws Error when the bytes break a clause: by a name that no host can have, or by a mistake of this code.
 */
export async function issue(
  signer: CertificateSigner,
  content: Omit<Intent, "keyIdentifier" | "issuer">,
  write: (issued: IssuedFields) => Bytes,
): Promise<Leaf> {
  const serialNumber = SerialNumber.random();
  const identifier = SubjectPublicKey.keyIdentifier(content.publicKey);
  const intent = { ...content, keyIdentifier: identifier, issuer: signer.fields };
  const toBeSigned = write({ serialNumber, keyIdentifier: identifier });
  const der = await lintAndSign(toBeSigned, intent, signer.signingKey);
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
    throw new Error(`refusing to sign: ${findings.map(({ clause }) => clause).join("; ")}`);
  }
  return signStructure(toBeSigned, signingKey);
}
