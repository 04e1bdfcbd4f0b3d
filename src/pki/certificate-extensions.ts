import { type Bytes, bytesEqual, fromHexLiteral } from "./bytes.ts";
import { DerError, type DerReader, Tag } from "./der-reader.ts";
import { Oid } from "./object-identifiers.ts";

/** One extension of a certificate, its value unread. */
export interface Extension {
  readonly isCritical: boolean;
  /** Stands before what the OCTET STRING holds. Fork it to read. */
  readonly value: DerReader;
}

/** The extensions that are read here, by the names of {@link Oid}. */
export type ExtensionName =
  | "keyUsage"
  | "extKeyUsage"
  | "basicConstraints"
  | "subjectKeyIdentifier"
  | "authorityKeyIdentifier"
  | "subjectAltName";

const names: readonly ExtensionName[] = [
  "keyUsage",
  "extKeyUsage",
  "basicConstraints",
  "subjectKeyIdentifier",
  "authorityKeyIdentifier",
  "subjectAltName",
];

/** The extensions of a certificate by name; of those without a name here, only that there are some. */
export interface CertificateExtensions {
  readonly hasUnknown: boolean;
  readonly get: (name: ExtensionName) => Extension | undefined;
}

/** What a certificate of version 1 has. */
export const noExtensions: CertificateExtensions = { hasUnknown: false, get: () => undefined };

const criticalTrue = fromHexLiteral("0101ff");

/**
 * Reads the `[3]` of a TBSCertificate.
 *
 * @throws DerError for an extension that comes twice, or spells out that it is not critical.
 */
export function readExtensions(fields: DerReader): CertificateExtensions {
  const wrapper = fields.enter(Tag.contextConstructed(3));
  const list = wrapper.enter(Tag.sequence);
  wrapper.finish();
  const found = new Map<ExtensionName, Extension>();
  const unknown: Bytes[] = [];
  while (!list.isDone) {
    const extension = list.enter(Tag.sequence);
    const name = nameAt(extension);
    const oid = name ? Oid[name] : extension.fork().element(Tag.objectIdentifier);
    extension.skip(Tag.objectIdentifier);
    const isTwice = name ? found.has(name) : unknown.some((other) => bytesEqual(other, oid));
    if (isTwice) throw new DerError("an extension twice (RFC 5280 §4.2)");
    const isCritical = extension.nextIs(Tag.boolean);
    if (isCritical) extension.literal(criticalTrue);
    const value = extension.enter(Tag.octetString);
    extension.finish();
    if (name) found.set(name, { isCritical, value });
    else unknown.push(oid);
  }
  return { hasUnknown: unknown.length > 0, get: (name) => found.get(name) };
}

function nameAt(extension: DerReader): ExtensionName | undefined {
  for (const name of names) if (extension.isAt(Oid[name])) return name;
  return undefined;
}
