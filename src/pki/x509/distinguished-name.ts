import type { Bytes } from "../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../encoding/der-reader.ts";

/** NumericString, TeletexString, IA5String and BMPString, beside the two that RFC 5280 wants. */
const texts: readonly number[] = [Tag.utf8String, Tag.printableString, 0x12, 0x14, 0x16, 0x1e];

/**
 * Requires a Name (RFC 5280 §4.1.2.4) whose attributes are texts. OpenSSL reads attributes of any type, and
 * Go's crypto/x509 these alone.
 *
 * @throws DerError
 */
export function requireDistinguishedName(der: Bytes): void {
  const name = new DerReader(der).enter(Tag.sequence);
  while (!name.isDone) {
    const relativeName = name.enter(Tag.set);
    if (relativeName.isDone) throw new DerError("a name with an empty part");
    while (!relativeName.isDone) requireAttribute(relativeName.enter(Tag.sequence));
  }
}

function requireAttribute(attribute: DerReader): void {
  attribute.skip(Tag.objectIdentifier);
  const [tag] = attribute.any();
  if (!texts.includes(tag)) throw new DerError("a name with an attribute that is no text");
  attribute.finish();
}
