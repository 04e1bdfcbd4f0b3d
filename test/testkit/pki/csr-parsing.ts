import { CertificateSigningRequest } from "../../../src/pki/x509/certificate-signing-request.ts";
import type { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { alike } from "../crypto-providers.ts";

/** Reads a CSR, as every provider must. */
export const parseCsr = (pem: string): Promise<SubjectPublicKey> =>
  alike((cryptoProvider) => CertificateSigningRequest.parse(pem, cryptoProvider));
