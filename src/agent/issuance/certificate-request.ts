import { sign } from "node:crypto";
import { promisify } from "node:util";
import { type Bytes, fromHexLiteral } from "../../pki/encoding/bytes.ts";
import { Tag } from "../../pki/encoding/der-reader.ts";
import { derElement, derSequence, derText } from "../../pki/encoding/der-writer.ts";
import { Oid } from "../../pki/encoding/object-identifiers.ts";
import { toPem } from "../../pki/encoding/pem.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { SubjectKey } from "../identity/subject-key.ts";

const signData = promisify(sign);

const version0 = fromHexLiteral("020100");
/** A subject with one RDN, an empty organisation, as Istio's agents send it. */
const emptyOrganisation = fromHexLiteral("300b31093007060355040a1300");
const extensionRequest = fromHexLiteral("06092a864886f70d01090e");
const critical = fromHexLiteral("0101ff");
const ecdsaWithSha256 = fromHexLiteral("300a06082a8648ce3d040302");
const rsaWithSha256 = fromHexLiteral("300d06092a864886f70d01010b0500");
const uriTag = Tag.contextPrimitive(6);

/**
 * Creates a PKCS#10 request (RFC 2986) as Istio's agents do: an empty organisation, and the SPIFFE ID as
 * the only name of a critical subjectAltName.
 */
export async function createCertificateRequest(
  spiffeId: SpiffeId,
  { privateKey, publicKey }: SubjectKey,
): Promise<string> {
  const spki = publicKey.export({ type: "spki", format: "der" });
  const info = derSequence(version0, emptyOrganisation, spki, attributes(spiffeId));
  const algorithm = privateKey.asymmetricKeyType === "ec" ? ecdsaWithSha256 : rsaWithSha256;
  const signature = await signData("sha256", info, privateKey);
  const bitString = derElement(Tag.bitString, Uint8Array.of(0), signature);
  return toPem("CERTIFICATE REQUEST", derSequence(info, algorithm, bitString));
}

function attributes(spiffeId: SpiffeId): Bytes {
  const names = derSequence(derElement(uriTag, derText(spiffeId)));
  const value = derElement(Tag.octetString, names);
  const extensions = derSequence(derSequence(Oid.subjectAltName, critical, value));
  const attribute = derSequence(extensionRequest, derElement(Tag.set, extensions));
  return derElement(Tag.contextConstructed(0), attribute);
}
