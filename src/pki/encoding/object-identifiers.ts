import { type Bytes, Hex } from "./bytes.ts";

const oid = (hex: string): Bytes =>
  Hex.parseLiteral(`06${(hex.length / 2).toString(16).padStart(2, "0")}${hex}`);

/** Object identifiers as whole DER elements (RFC 5280 §4.2, §5.2, §5.3 and Appendix A). */
export const Oid = {
  commonName: oid("550403"),
  organizationName: oid("55040a"),
  subjectKeyIdentifier: oid("551d0e"),
  keyUsage: oid("551d0f"),
  subjectAltName: oid("551d11"),
  basicConstraints: oid("551d13"),
  authorityKeyIdentifier: oid("551d23"),
  extKeyUsage: oid("551d25"),
  nameConstraints: oid("551d1e"),
  crlNumber: oid("551d14"),
  reasonCode: oid("551d15"),
  serverAuth: oid("2b06010505070301"),
  clientAuth: oid("2b06010505070302"),
  // 1.2.840.113556.1.8000.2554 and the UUID 91d67114-bf03-4378-a00c-e122513829e9 in seven arcs, as
  // Microsoft gives that arc away. The UUID as one arc (2.25) is too large for Go's crypto/x509.
  identityProof: oid("2a864886f71401be40937a82a35681e21482fe0381867882c00c8784c45181e0d369"),
};
