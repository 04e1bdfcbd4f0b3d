import { verify, type X509Certificate } from "node:crypto";
import { CaError } from "../../foundation/errors.ts";
import { bytesEqual } from "../../pki/encoding/bytes.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { parseCertificate } from "../../pki/x509/certificate.ts";
import { type Crl, crlIssuerOf, isCrlOf } from "../../pki/x509/crl/crl.ts";
import { signatureAlgorithms } from "../../pki/x509/signature-algorithm.ts";
import { parseSubjectPublicKey } from "../../pki/x509/subject-public-key.ts";

/** A CA that may have signed a list. */
export interface ListIssuer {
  /** Whether a list names this CA as its issuer. */
  readonly isNamedBy: (list: Crl) => boolean;
  /** Whether this CA has signed the list, and may sign lists. */
  readonly hasSigned: (list: Crl) => boolean;
}

/** A CA whose certificate or key cannot be read here has issued no list. */
export function listIssuerOf(certificate: X509Certificate): ListIssuer {
  try {
    const parsed = parseCertificate(Uint8Array.from(certificate.raw));
    const { algorithm } = parseSubjectPublicKey(parsed.toBeSigned.spki);
    const signer = crlIssuerOf(parsed);
    // A list may have megabytes, and is looked at again whenever the roots change.
    const verdicts = new WeakMap<Crl, boolean>();
    const isSigned = ({ signatureAlgorithm, signedBytes, signature }: Crl): boolean => {
      const scheme = signatureAlgorithms[algorithm].find(({ identifier }) =>
        bytesEqual(identifier, signatureAlgorithm),
      );
      if (!scheme || !signer.maySign) return false;
      return verify(scheme.hash, signedBytes, certificate.publicKey, signature);
    };
    return {
      isNamedBy: (list) => isCrlOf(list, signer),
      hasSigned: (list) => {
        const verdict = verdicts.get(list) ?? isSigned(list);
        verdicts.set(list, verdict);
        return verdict;
      },
    };
  } catch (error) {
    if (!(error instanceof DerError || error instanceof CaError)) throw error;
    return { isNamedBy: () => false, hasSigned: () => false };
  }
}
