import { type KeyObject, sign } from "node:crypto";
import { promisify } from "node:util";
import { Hex } from "../pki/encoding/bytes.ts";
import { Pem } from "../pki/encoding/pem.ts";
import type { SpiffeId } from "../pki/spiffe-id.ts";
import { subjectAltUri } from "../pki/x509/certificate-extensions.ts";
import { CertificationRequest } from "../pki/x509/request-to-be-signed.ts";

const signData = promisify(sign);

/** DER of a subject with one RDN, an empty organisation, as Istio's agents send it. */
const emptyOrganisation = Hex.parseLiteral("300b31093007060355040a1300");
const ecdsaWithSha256 = Hex.parseLiteral("300a06082a8648ce3d040302");
const rsaWithSha256 = Hex.parseLiteral("300d06092a864886f70d01010b0500");

/** A key pair that a certificate is requested for: P-256, P-384 or RSA. */
export interface SubjectKey {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/**
 * Creates a PKCS#10 request (RFC 2986), PEM, as Istio's agents do: an empty organisation, and the SPIFFE ID as the only
 * name of a critical subjectAltName.
 *
 * @param spiffeId `undefined` requests no name: the CA decides on all of them.
 */
export async function createCertificateRequest(
  { privateKey, publicKey }: SubjectKey,
  spiffeId: SpiffeId | undefined,
): Promise<string> {
  const spki = publicKey.export({ type: "spki", format: "der" });
  const extensions = spiffeId === undefined ? [] : [subjectAltUri(spiffeId, true)];
  const info = CertificationRequest.info(emptyOrganisation, spki, extensions);
  const algorithm = privateKey.asymmetricKeyType === "ec" ? ecdsaWithSha256 : rsaWithSha256;
  const signature = await signData("sha256", info, privateKey);
  return Pem.format("CERTIFICATE REQUEST", CertificationRequest.signed(info, algorithm, signature));
}
