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

/** The attributes of RFC 4514 §3 that authorities have, by the last octet of their type (2.5.4.x). */
const shortNames: Readonly<Record<number, string>> = {
  3: "CN",
  6: "C",
  7: "L",
  8: "ST",
  10: "O",
  11: "OU",
};

const longestText = 200;

/**
 * A Name as a person reads it, such as `O=cluster.local`, in the order of its octets. Attributes of other
 * types are left out. It is for display alone: two names may look alike.
 *
 * @throws DerError
 */
export function displayedName(der: Bytes): string {
  const name = new DerReader(der).enter(Tag.sequence);
  const parts: string[] = [];
  while (!name.isDone) {
    const relativeName = name.enter(Tag.set);
    while (!relativeName.isDone) {
      const attribute = relativeName.enter(Tag.sequence);
      const type = attribute.content(Tag.objectIdentifier);
      const [, value] = attribute.any();
      const isShort = type.length === 3 && type[0] === 0x55 && type[1] === 0x04;
      const shortName = isShort ? shortNames[type[2] ?? 0] : undefined;
      if (shortName) parts.push(`${shortName}=${new TextDecoder().decode(value.rest())}`);
    }
  }
  return parts.join(", ").slice(0, longestText);
}
