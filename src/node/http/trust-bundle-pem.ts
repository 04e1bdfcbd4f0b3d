import { X509Certificate } from "node:crypto";

const block = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\n?/g;
const maximumRoots = 256;

/**
 * A trust bundle as it came over the network: certificates of authorities and nothing else.
 *
 * @throws Error for anything else, and for an empty one, which would say that nobody is to be trusted.
 */
export function parseTrustBundle(text: string): string {
  const blocks = text.match(block) ?? [];
  if (
    blocks.length === 0 ||
    blocks.length > maximumRoots ||
    text.replace(block, "").trim() !== ""
  ) {
    throw new Error("not a trust bundle in PEM");
  }
  if (!blocks.every((pem) => new X509Certificate(pem).ca)) {
    throw new Error("a trust bundle with a certificate that is no authority's");
  }
  return text;
}
