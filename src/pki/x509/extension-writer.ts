import { type Bytes, fromHexLiteral } from "../encoding/bytes.ts";
import { Tag } from "../encoding/der-reader.ts";
import { derElement, derSequence, derText } from "../encoding/der-writer.ts";
import { Oid } from "../encoding/object-identifiers.ts";

/** `critical` of an extension, where it is true. */
export const critical: Bytes = fromHexLiteral("0101ff");

/** The tag of a URI among GeneralNames. */
export const uriName: number = Tag.contextPrimitive(6);

/** An extension (RFC 5280 §4.1). Its value consists of these elements. */
export const extension = (oid: Bytes, isCritical: boolean, ...value: Bytes[]): Bytes =>
  derSequence(oid, ...(isCritical ? [critical] : []), derElement(Tag.octetString, ...value));

/** The KeyUsage of a CA: keyCertSign and cRLSign, without trailing zero bits (X.690 §11.2.2). */
export const certificateAndCrlSigning: Bytes = extension(
  Oid.keyUsage,
  true,
  fromHexLiteral("03020106"),
);

/** A subjectAltName whose one name is a SPIFFE ID. */
export const subjectAltUri = (spiffeId: string, isCritical: boolean): Bytes =>
  extension(Oid.subjectAltName, isCritical, derSequence(derElement(uriName, derText(spiffeId))));
