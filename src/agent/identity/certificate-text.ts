import { X509Certificate } from "node:crypto";

const block = /-----BEGIN CERTIFICATE-----\r?\n[A-Za-z0-9+/=\r\n]+-----END CERTIFICATE-----/g;

/** More certificates than any CA or bundle file of a mesh holds. */
const maximumCertificates = 100;

/**
 * The certificates of a PEM text, in order. As in Istio, blocks that do not parse and text between
 * blocks are skipped.
 */
export function parseCertificates(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(block) ?? [];
  return blocks.slice(0, maximumCertificates).flatMap((text) => parseCertificate(text) ?? []);
}

/** The certificate of one PEM block or of DER, or `undefined`. */
export function parseCertificate(encoded: string | Uint8Array): X509Certificate | undefined {
  try {
    return new X509Certificate(encoded);
  } catch {
    // OpenSSL's errors do not say more than the caller knows.
    return undefined;
  }
}

/** Joins PEM texts, and adds a newline between two only where one is missing. */
export function joinPem(elements: readonly string[]): string {
  return elements.reduce((joined, element) => {
    const separator = joined === "" || joined.endsWith("\n") ? "" : "\n";
    return `${joined}${separator}${element}`;
  }, "");
}
