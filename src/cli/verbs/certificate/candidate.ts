import { namesAuthority } from "../../../authn/certificate/certificate-verifier.ts";
import { isSerialNumber } from "../../../custody/revocation-statement.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { nodeCryptoProvider } from "../../../node/node-crypto-provider.ts";
import type { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { bytesEqual, toHex } from "../../../pki/encoding/bytes.ts";
import { DerError } from "../../../pki/encoding/der-reader.ts";
import { serialContent } from "../../../pki/encoding/serial-number.ts";
import { type Certificate, parseCertificate } from "../../../pki/x509/certificate.ts";
import { isSignedWith } from "../../../pki/x509/certificate-signature.ts";
import { findByIdPrefix } from "../authority/id-prefix.ts";
import type { SearchFields } from "../log/follower-index.ts";
import { loggedCertificate } from "../log/logged-certificate.ts";
import { readLeaf } from "../log/proofs.ts";

/** A certificate that an operator may want to revoke. */
export interface Candidate extends Pick<SearchFields, "cluster" | "node"> {
  /** The id of the authority that signed it. */
  readonly authority: string;
  /** Content octets in hexadecimal. */
  readonly serialNumber: string;
  readonly notAfter: Date;
  /** Its SPIFFE ID or DNS names; `undefined` where only its serial number is known. */
  readonly name?: string | undefined;
  readonly issuedAt?: Date | undefined;
}

/** The certificate in a PEM file, which one of these authorities has signed. @throws OperatorError */
export async function candidateInFile(
  file: string,
  authorities: readonly SigningAuthority[],
): Promise<Candidate> {
  const der = await readLeaf(file);
  const certificate = parsed(file, der);
  if (authorities.some((each) => bytesEqual(each.certificate.der, der))) {
    throw new OperatorError(
      `${file} is an authority: \`rampart authority taint\` takes its root out of the trust bundle`,
    );
  }
  const signer = await signerOf(certificate, authorities);
  if (!signer) {
    throw new OperatorError(
      `${file}: none of the authorities in the trust bundle has signed this certificate`,
    );
  }
  const { spiffeId } = loggedCertificate({ certificate: der, at: "", proof: "own" });
  return candidateOf(certificate, signer, { name: spiffeId });
}

/** A certificate of which only the serial number is known. @throws OperatorError */
export function candidateOfSerial(
  text: string,
  authorities: readonly SigningAuthority[],
  { authority, until }: { readonly authority?: string | undefined; readonly until: Date },
): Candidate {
  const serialNumber = serialContent(text);
  if (!isSerialNumber(serialNumber)) {
    throw new OperatorError(`${text} is no serial number: it is 0, or has more than 20 octets`);
  }
  const [first, ...others] = authorities;
  if (authority === undefined && (!first || others.length > 0)) {
    throw new OperatorError(
      `give the certificate, a log (--url or --dir), or --authority: ${authorities.length} authorities may have signed ${text}`,
    );
  }
  const signer =
    authority === undefined ? first : findByIdPrefix(authorities, authority, "authority");
  return { authority: signer?.id ?? "", serialNumber, notAfter: until };
}

/** A certificate with its signer and what else is known of it. */
export function candidateOf(
  { toBeSigned }: Certificate,
  signer: SigningAuthority,
  others: Partial<Candidate>,
): Candidate {
  return {
    authority: signer.id,
    serialNumber: toHex(toBeSigned.serialNumber),
    notAfter: toBeSigned.validity.notAfter,
    ...others,
  };
}

/** The authority that has signed a certificate. */
export async function signerOf(
  certificate: Certificate,
  authorities: readonly SigningAuthority[],
): Promise<SigningAuthority | undefined> {
  for (const authority of authorities) {
    if (!namesAuthority(certificate, authority)) continue;
    if (await isSignedWith(certificate, authority.publicKey, nodeCryptoProvider)) return authority;
  }
  return undefined;
}

function parsed(file: string, der: Uint8Array<ArrayBuffer>): Certificate {
  try {
    return parseCertificate(der);
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new OperatorError(`${file} is not a certificate: ${error.message}`);
  }
}
