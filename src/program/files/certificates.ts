import { X509Certificate } from "node:crypto";
import { parseBase64 } from "../../pki/encoding/base64.ts";
import { DerReader, Tag } from "../../pki/encoding/der-reader.ts";
import { certificateBlocks } from "../../pki/encoding/pem.ts";

/** More certificates than any CA or bundle file of a mesh holds. */
const maximumCertificates = 100;

/** The certificates of a PEM text, in order. As Istio does, it skips blocks that do not parse. */
export function parseCertificates(pem: string): readonly X509Certificate[] {
  const blocks = certificateBlocks(pem).slice(0, maximumCertificates);
  return blocks.flatMap((base64) => parseCertificate(base64) ?? []);
}

/**
 * The certificate of DER in base64 on one line, or `undefined`. OpenSSL also reads what is not DER, such as
 * octets after a certificate. Other verifiers refuse that, and the whole file with it.
 */
export function parseCertificate(base64: string): X509Certificate | undefined {
  const der = parseBase64(base64);
  try {
    const certificate = der && new X509Certificate(der);
    return der && certificate?.raw.equals(der) ? certificate : undefined;
  } catch {
    // OpenSSL's errors do not say more than the caller knows.
    return undefined;
  }
}

/**
 * Whether a verifier takes it for an anchor: the certificate of a CA, or a self-issued one of version 1.
 * Version 1, such as that of Istio's sample root, has no extension that says so.
 */
export function mayBeRoot(certificate: X509Certificate): boolean {
  if (certificate.ca) return true;
  const fields = new DerReader(certificate.raw).enter(Tag.sequence).enter(Tag.sequence);
  const isVersion1 = !fields.nextIs(Tag.contextConstructed(0));
  return isVersion1 && certificate.checkIssued(certificate);
}
