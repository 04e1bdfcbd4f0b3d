import { type KeyObject, sign } from "node:crypto";
import { promisify } from "node:util";
import { type Bytes, fromHexLiteral } from "../pki/encoding/bytes.ts";
import { Tag } from "../pki/encoding/der-reader.ts";
import { derElement, derSequence, derText } from "../pki/encoding/der-writer.ts";
import { Oid } from "../pki/encoding/object-identifiers.ts";
import { toPem } from "../pki/encoding/pem.ts";
import type { SpiffeId } from "../pki/spiffe-id.ts";

const signData = promisify(sign);

const version0 = fromHexLiteral("020100");
/** A subject with one RDN, an empty organisation, as Istio's agents send it. */
const emptyOrganisation = fromHexLiteral("300b31093007060355040a1300");
const extensionRequest = fromHexLiteral("06092a864886f70d01090e");
const noAttributes = fromHexLiteral("a000");
const critical = fromHexLiteral("0101ff");
const ecdsaWithSha256 = fromHexLiteral("300a06082a8648ce3d040302");
const rsaWithSha256 = fromHexLiteral("300d06092a864886f70d01010b0500");
const uriTag = Tag.contextPrimitive(6);

/** A key pair that a certificate is requested for: P-256, P-384 or RSA. */
export interface SubjectKey {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/**
 * Creates a PKCS#10 request (RFC 2986) as Istio's agents do: an empty organisation, and the SPIFFE ID as
 * the only name of a critical subjectAltName.
 *
 * @param spiffeId `undefined` requests no name: the CA decides on all of them.
 */
export async function createCertificateRequest(
  { privateKey, publicKey }: SubjectKey,
  spiffeId: SpiffeId | undefined,
): Promise<string> {
  const spki = publicKey.export({ type: "spki", format: "der" });
  const requested = spiffeId === undefined ? noAttributes : subjectAltName(spiffeId);
  const info = derSequence(version0, emptyOrganisation, spki, requested);
  const algorithm = privateKey.asymmetricKeyType === "ec" ? ecdsaWithSha256 : rsaWithSha256;
  const signature = await signData("sha256", info, privateKey);
  const bitString = derElement(Tag.bitString, Uint8Array.of(0), signature);
  return toPem("CERTIFICATE REQUEST", derSequence(info, algorithm, bitString));
}

function subjectAltName(spiffeId: SpiffeId): Bytes {
  const names = derSequence(derElement(uriTag, derText(spiffeId)));
  const value = derElement(Tag.octetString, names);
  const extensions = derSequence(derSequence(Oid.subjectAltName, critical, value));
  const attribute = derSequence(extensionRequest, derElement(Tag.set, extensions));
  return derElement(Tag.contextConstructed(0), attribute);
}
