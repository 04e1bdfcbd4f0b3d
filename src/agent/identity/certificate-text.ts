import { X509Certificate } from "node:crypto";

const block = /-----BEGIN CERTIFICATE-----\r?\n[A-Za-z0-9+/=\r\n]+-----END CERTIFICATE-----/g;

/** What no CA or bundle file of a mesh comes near. */
const maximumCertificates = 100;

/**
 * The certificates of a PEM text, in order; blocks that do not parse, and whatever stands between
 * blocks, are left out, as Istio does.
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
    // OpenSSL's errors tell of its own insides; the caller knows what this was.
    return undefined;
  }
}

/** Joins PEM texts, with a newline between them only where one is missing. */
export function joinPem(elements: readonly string[]): string {
  return elements.reduce((joined, element) => {
    const separator = joined === "" || joined.endsWith("\n") ? "" : "\n";
    return `${joined}${separator}${element}`;
  }, "");
}
