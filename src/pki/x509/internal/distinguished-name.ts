import { type Bytes, Hex } from "../../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../../encoding/der-reader.ts";

/** NumericString, TeletexString, IA5String and BMPString, beside the two that RFC 5280 wants. */
const texts: readonly number[] = [Tag.utf8String, Tag.printableString, 0x12, 0x14, 0x16, 0x1e];

/**
 * Requires a Name (RFC 5280 §4.1.2.4) whose attributes are texts. OpenSSL reads attributes of any type, and
 * Go's crypto/x509 these alone.
 *
 * @throws DerError
 */
export function requireDistinguishedName(der: Bytes): void {
  for (const attributes of relativeNamesIn(der)) {
    if (attributes.length === 0) throw new DerError("a name with an empty part");
    for (const attribute of attributes) requireText(attribute);
  }
}

function requireText(attribute: DerReader): void {
  attribute.skip(Tag.objectIdentifier);
  const [tag] = attribute.any();
  if (!texts.includes(tag)) throw new DerError("a name with an attribute that is no text");
  attribute.finish();
}

/**
 * The parts of a Name, comparable as OpenSSL compares them (RFC 5280 §7.1): without regard to case and to
 * repeated spaces. A name that is within another begins with its parts.
 *
 * @throws DerError
 */
export function relativeNamesOf(der: Bytes): readonly string[] {
  return attributesOf(der).map((attributes) =>
    attributes
      .map(({ type, value }) => `${Hex.format(type)}=${comparable(value)}`)
      .toSorted()
      .join("+"),
  );
}

const comparable = (value: Bytes): string =>
  decoded(value).trim().replaceAll(/ +/g, " ").toLowerCase();

/** Decodes UTF-8. Octets that are not UTF-8 become U+FFFD. */
export const decoded = (value: Bytes): string => new TextDecoder().decode(value);

interface Attribute {
  /** The content of its object identifier. */
  readonly type: Bytes;
  readonly value: Bytes;
}

/** Reads a Name: its relative distinguished names in order, each with its attributes. @throws DerError if it is malformed. */
export function attributesOf(der: Bytes): readonly (readonly Attribute[])[] {
  return relativeNamesIn(der).map((attributes) => attributes.map(readAttribute));
}

function readAttribute(attribute: DerReader): Attribute {
  const type = attribute.content(Tag.objectIdentifier);
  const [, value] = attribute.any();
  return { type, value: value.rest() };
}

/** The relative distinguished names of a Name (RFC 5280 §4.1.2.4), each as readers of its attributes. */
function relativeNamesIn(der: Bytes): DerReader[][] {
  const names = elementsOf(new DerReader(der).enter(Tag.sequence), Tag.set);
  return names.map((name) => elementsOf(name, Tag.sequence));
}

function elementsOf(list: DerReader, tag: number): DerReader[] {
  const elements: DerReader[] = [];
  while (!list.isDone) elements.push(list.enter(tag));
  return elements;
}
