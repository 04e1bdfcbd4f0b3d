import { type Bytes, toHex } from "../encoding/bytes.ts";
import { Oid } from "../encoding/object-identifiers.ts";
import { type TrustDomain, trustDomainSpiffeId } from "../spiffe-id.ts";
import { webSigningKey } from "../web-crypto-provider.ts";
import { certificateAndCrlSigning, extension, subjectAltUri } from "../x509/extension-writer.ts";
import { basicConstraints, intermediateSubject } from "../x509/intermediate.ts";
import { keyIdentifier } from "../x509/key-identifier.ts";
import { requestInfo, signedRequest } from "../x509/request/certification-request.ts";
import { signatureAlgorithmOf, toX509Signature } from "../x509/signature-algorithm.ts";
import { parseSubjectPublicKey, type SubjectPublicKey } from "../x509/subject-public-key.ts";
import { type AuthorityKey, generateAuthorityKey } from "./self-signed-authority.ts";

/** A request for an intermediate, with the only copy of its key that can be exported. */
export interface IntermediateRequest {
  /** The id of the authority to be: its key identifier in hexadecimal. */
  readonly id: string;
  readonly publicKey: SubjectPublicKey;
  readonly extractablePrivateKey: CryptoKey;
  /** PKCS#10 (RFC 2986), DER. */
  readonly csr: Bytes;
}

/**
 * Makes a key and a CSR for an intermediate of a trust domain. The CSR asks for what an import demands: path
 * length 0, keyCertSign and cRLSign, and the trust domain as its SPIFFE ID.
 */
export async function createIntermediateRequest(
  trustDomain: TrustDomain,
  key: AuthorityKey,
): Promise<IntermediateRequest> {
  const { privateKey, spki } = await generateAuthorityKey(key);
  const publicKey = parseSubjectPublicKey(spki);
  const id = toHex(keyIdentifier(publicKey));
  const info = requestInfo(intermediateSubject(trustDomain, id), spki, [
    extension(Oid.basicConstraints, true, basicConstraints(0)),
    certificateAndCrlSigning,
    subjectAltUri(trustDomainSpiffeId(trustDomain), false),
  ]);
  const algorithm = signatureAlgorithmOf(publicKey);
  const raw = new Uint8Array(await webSigningKey(privateKey, algorithm).sign(info));
  const { scalarOctets } = algorithm;
  const signature = scalarOctets === undefined ? raw : toX509Signature(raw, scalarOctets);
  const csr = signedRequest(info, algorithm.identifier, signature);
  return { id, publicKey, extractablePrivateKey: privateKey, csr };
}
