import type { Bytes } from "../encoding/bytes.ts";
import { DerError, DerReader, derTrue, Tag } from "../encoding/der-reader.ts";
import { derElement, derSequence, derText } from "../encoding/internal/der-writer.ts";
import { Oid } from "../encoding/object-identifiers.ts";

/** The tag of a URI among GeneralNames. */
export const uriName: number = Tag.contextPrimitive(6);

/** Encodes an extension (RFC 5280 §4.1). Its value consists of these elements. */
export const extension = (oid: Bytes, isCritical: boolean, ...value: Bytes[]): Bytes =>
  derSequence(oid, ...(isCritical ? [derTrue] : []), derElement(Tag.octetString, ...value));

/** A subjectAltName whose one name is a SPIFFE ID. */
export const subjectAltUri = (spiffeId: string, isCritical: boolean): Bytes =>
  extension(Oid.subjectAltName, isCritical, derSequence(derElement(uriName, derText(spiffeId))));

/** One extension of a certificate. Its value is not parsed. */
export interface Extension {
  readonly isCritical: boolean;
  /** A reader at the start of the OCTET STRING's content. Fork it to read. */
  readonly value: DerReader;
}

const names = [
  "keyUsage",
  "extKeyUsage",
  "basicConstraints",
  "subjectKeyIdentifier",
  "authorityKeyIdentifier",
  "subjectAltName",
  "identityProof",
  "nameConstraints",
] as const;

/** The extensions that this code knows, by the names of {@link Oid}. */
export type ExtensionName = (typeof names)[number];

interface Found extends Partial<Record<ExtensionName, Extension>> {
  hasUnknown: boolean;
  /** Whether an unknown extension is critical: then a verifier must reject the certificate (RFC 5280 §4.2). */
  hasUnknownCritical: boolean;
}

/** The extensions of a certificate that this code parses, by name, and whether it has others. */
export type CertificateExtensions = Readonly<Found>;

/** The extensions of a certificate of version 1, which cannot have any. */
export const noExtensions: CertificateExtensions = { hasUnknown: false, hasUnknownCritical: false };

/**
 * Reads the `[3]` of a TBSCertificate. An unknown critical extension is not refused, but reported in
 * `hasUnknownCritical`.
 *
 * @throws DerError for an extension that comes twice (RFC 5280 §4.2), or whose `critical` is an encoded
 *   FALSE, which DER leaves out (X.690 §11.5).
 */
export function readExtensions(fields: DerReader): CertificateExtensions {
  return readExtensionList(fields.enter(Tag.contextConstructed(3)).enterLast(Tag.sequence));
}

/** Like {@link readExtensions}, for the content of an Extensions alone, as in a request. @throws DerError as there. */
export function readExtensionList(list: DerReader): CertificateExtensions {
  const found: Found = { ...noExtensions };
  const unknown: Bytes[] = [];
  while (!list.isDone) {
    const { oid, ...extension } = nextExtension(list);
    const name = names.find((each) => oid.isAt(Oid[each]));
    const isTwice = name ? found[name] : unknown.some((other) => oid.isAt(other));
    if (isTwice) throw new DerError("an extension twice (RFC 5280 §4.2)");
    if (name) {
      found[name] = extension;
      continue;
    }
    unknown.push(oid.element(Tag.objectIdentifier));
    if (extension.isCritical) found.hasUnknownCritical = true;
  }
  found.hasUnknown = unknown.length > 0;
  return found;
}

/** Reads the next extension of a list. `oid` reads its object identifier. @throws DerError for another form. */
export function nextExtension(list: DerReader): Extension & { readonly oid: DerReader } {
  const extension = list.enter(Tag.sequence);
  const oid = extension.fork();
  extension.skip(Tag.objectIdentifier);
  const isCritical = extension.nextIs(Tag.boolean);
  if (isCritical) extension.literal(derTrue);
  const value = extension.enter(Tag.octetString);
  extension.finish();
  return { oid, isCritical, value };
}

/** All extensions of a TBSCertificate that was parsed before. */
export function extensionsIn(toBeSigned: Bytes): readonly ReturnType<typeof nextExtension>[] {
  const found: ReturnType<typeof nextExtension>[] = [];
  const fields = new DerReader(toBeSigned).enter(Tag.sequence);
  while (!fields.isDone) {
    const [tag, content] = fields.any();
    if (tag !== Tag.contextConstructed(3)) continue;
    const list = content.enter(Tag.sequence);
    while (!list.isDone) found.push(nextExtension(list));
  }
  return found;
}
