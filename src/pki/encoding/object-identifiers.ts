import { type Bytes, fromHexLiteral } from "./bytes.ts";

const oid = (hex: string): Bytes =>
  fromHexLiteral(`06${(hex.length / 2).toString(16).padStart(2, "0")}${hex}`);

type ExtensionName =
  | "subjectKeyIdentifier"
  | "keyUsage"
  | "subjectAltName"
  | "basicConstraints"
  | "authorityKeyIdentifier"
  | "extKeyUsage";
type AttributeName = "organizationName" | "serverAuth" | "clientAuth";

/** Object identifiers as whole DER elements (RFC 5280 §4.2 and Appendix A). */
export const Oid: Readonly<Record<ExtensionName | AttributeName, Bytes>> = {
  organizationName: oid("55040a"),
  subjectKeyIdentifier: oid("551d0e"),
  keyUsage: oid("551d0f"),
  subjectAltName: oid("551d11"),
  basicConstraints: oid("551d13"),
  authorityKeyIdentifier: oid("551d23"),
  extKeyUsage: oid("551d25"),
  serverAuth: oid("2b06010505070301"),
  clientAuth: oid("2b06010505070302"),
};
