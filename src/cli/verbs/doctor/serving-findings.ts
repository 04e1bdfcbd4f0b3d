import { createPrivateKey, X509Certificate } from "node:crypto";
import { OperatorError } from "../../../foundation/errors.ts";
import { CertificateFiles } from "../../../node/tls.ts";
import { Finding } from "../../../status/finding.ts";

/**
 * Finds what makes the files of a serving certificate unusable: unreadable, of another key, or ended. An end that is near
 * is no finding, because another program replaces the files in time. Chain and names are not checked.
 */
export async function servingFindings(
  files: CertificateFiles | undefined,
  now: Date,
): Promise<readonly Finding[]> {
  if (!files) return [];
  try {
    const { chainPem, keyPem } = await CertificateFiles.read(files)(now);
    const certificate = new X509Certificate(chainPem);
    if (!certificate.checkPrivateKey(createPrivateKey(keyPem)))
      return [unusable(files, "belongs to another key than TLS_KEY_FILE has")];
    const { validToDate: end } = certificate;
    return end <= now ? [unusable(files, `ended at ${end.toISOString()}`)] : [];
  } catch (error) {
    const why = error instanceof OperatorError ? `cannot be read: ${error.message}` : "is damaged";
    return [unusable(files, why)];
  }
}

const unusable = ({ certificate }: CertificateFiles, why: string): Finding =>
  Finding.of(
    "serving-certificate-unusable",
    `The serving certificate in ${certificate} ${why}.`,
    "Look at what renews it, such as cert-manager",
  );
