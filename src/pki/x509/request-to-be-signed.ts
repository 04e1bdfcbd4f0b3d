import { type Bytes, Hex } from "../encoding/bytes.ts";
import { Tag } from "../encoding/der-reader.ts";
import { derElement, derSequence } from "../encoding/internal/der-writer.ts";

/** The INTEGER 0 in DER: the version of every PKCS#10 request (RFC 2986 §4.1). */
export const version0 = Hex.parseLiteral("020100");
/** The type of the attribute that holds requested extensions (RFC 2985 §5.4.2). */
export const extensionRequest: Bytes = Hex.parseLiteral("06092a864886f70d01090e");

/** Writes PKCS#10 requests (RFC 2986). */
export const CertificationRequest = {
  /**
   * The part of a PKCS#10 request that its key signs (RFC 2986 §4.1).
   *
   * @param subject A Name, DER.
   * @param extensions The requested extensions, DER, in an attribute extensionRequest (RFC 2985 §5.4.2).
   */
  info(subject: Bytes, spki: Uint8Array, extensions: readonly Bytes[]): Bytes {
    const attributes =
      extensions.length === 0
        ? []
        : [derSequence(extensionRequest, derElement(Tag.set, derSequence(...extensions)))];
    return derSequence(
      version0,
      subject,
      spki,
      derElement(Tag.contextConstructed(0), ...attributes),
    );
  },

  /** A PKCS#10 request (RFC 2986 §4.2), DER. */
  signed(info: Bytes, algorithm: Bytes, signature: Uint8Array): Bytes {
    return derSequence(info, algorithm, derElement(Tag.bitString, Uint8Array.of(0), signature));
  },
};
