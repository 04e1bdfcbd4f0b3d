import { type Bytes, toHex } from "../../encoding/bytes.ts";
import type { Issuer } from "../leaf/issuer.ts";
import { signStructure } from "../signed-structure.ts";
import { type CrlIntent, lintCrl, maySignCrls } from "./crl-lint.ts";
import { type CrlContent, crlToBeSigned } from "./crl-to-be-signed.ts";

/** A CRL before its signature. Equal contents have equal bytes, whichever process writes them. */
export interface UnsignedCrl {
  readonly toBeSigned: Bytes;
  readonly content: CrlContent;
}

/** The bytes that an authority is going to sign. */
export function prepareCrl(issuer: Issuer, content: CrlContent): UnsignedCrl {
  return { toBeSigned: crlToBeSigned(issuer.profile, content), content };
}

/**
 * Lints the bytes of a CRL and signs those bytes. No other code makes a CRL.
 *
 * @throws Error when the bytes break a clause, or the authority may not sign CRLs.
 */
export async function signCrl(
  issuer: Issuer,
  { toBeSigned, content }: UnsignedCrl,
): Promise<Bytes> {
  const intent: CrlIntent = { ...content, issuer: issuer.fields };
  const findings = [
    ...(maySignCrls(issuer.authority) ? [] : [{ clause: "RFC 5280 §4.2.1.3 cRLSign" }]),
    ...lintCrl(toBeSigned, intent),
  ];
  if (findings.length === 0) return signStructure(toBeSigned, issuer.signingKey);
  const clauses = findings.map(({ clause }) => clause).join("; ");
  throw new Error(`refusing to sign CRL ${toHex(content.number)}: ${clauses}`);
}
