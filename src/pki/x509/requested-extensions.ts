import { DerError, DerReader, Tag } from "../encoding/der-reader.ts";
import { Oid } from "../encoding/object-identifiers.ts";
import { Pem } from "../encoding/pem.ts";
import { type Extension, readExtensionList, uriName } from "./certificate-extensions.ts";
import { requestLabels } from "./certificate-signing-request.ts";
import { extensionRequest, version0 } from "./request-to-be-signed.ts";

/** What a CSR asks for besides its key, as text that nobody has verified. */
export interface RequestedExtensions {
  readonly uris: readonly string[];
  readonly dnsNames: readonly string[];
  /** Whether there is a name that is neither a URI nor a DNS name. */
  readonly hasOtherNames: boolean;
  /** Whether there is anything but names and the usages of a TLS peer, such as a CA's basicConstraints. */
  readonly hasOtherExtensions: boolean;
}

const dnsName = Tag.contextPrimitive(2);

/**
 * Reads the extensions that a CSR requests. The CA signs none of them: a signer compares them with its rules.
 *
 * A CSR in which two readers may find different names is refused: one with an attribute that comes twice, has several
 * values or is no extensionRequest, and one that departs from DER anywhere.
 *
 * @param pem A CSR whose key and signature have been verified.
 * @throws DerError
 */
export function readRequestedExtensions(pem: string): RequestedExtensions {
  const der = Pem.parse(pem, requestLabels);
  if (!der) throw new DerError("not one PEM block of a certificate signing request");
  const info = new DerReader(der).enter(Tag.sequence).enter(Tag.sequence);
  info.literal(version0);
  info.skip(Tag.sequence);
  info.skip(Tag.sequence);
  const attributes = info.enter(Tag.contextConstructed(0));
  if (attributes.isDone) return namesIn([], false);
  const attribute = attributes.enterLast(Tag.sequence);
  attribute.literal(extensionRequest);
  const list = attribute.enterLast(Tag.set).enterLast(Tag.sequence);
  const { keyUsage, extKeyUsage, basicConstraints, subjectAltName, ...others } =
    readExtensionList(list);
  const isOfTlsPeer =
    !Object.values(others).some(Boolean) &&
    has(basicConstraints, (value) => value.enter(Tag.sequence).isDone) &&
    has(keyUsage, (value) => isPeerUsage(value.content(Tag.bitString))) &&
    has(extKeyUsage, (value) => isPeerPurposes(value.enter(Tag.sequence)));
  return namesIn(subjectAltName ? contentOf(subjectAltName, generalNames) : [], !isOfTlsPeer);
}

/** Reads the value of an extension. @throws DerError if `read` leaves octets of it. */
function contentOf<T>({ value }: Extension, read: (value: DerReader) => T): T {
  const reader = value.fork();
  const found = read(reader);
  reader.finish();
  return found;
}

const has = (extension: Extension | undefined, is: (value: DerReader) => boolean): boolean =>
  extension === undefined || contentOf(extension, is);

/** Whether a KeyUsage has no bit but digitalSignature and keyEncipherment, the first and the third. */
const isPeerUsage = ([, first = 0, ...others]: Iterable<number>): boolean =>
  (first & ~0xa0) === 0 && others.length === 0;

function isPeerPurposes(purposes: DerReader): boolean {
  while (!purposes.isDone) {
    if (!purposes.isAt(Oid.serverAuth) && !purposes.isAt(Oid.clientAuth)) return false;
    purposes.skip(Tag.objectIdentifier);
  }
  return true;
}

type GeneralName = readonly [tag: number, text: string];

function generalNames(value: DerReader): readonly GeneralName[] {
  const names = value.enter(Tag.sequence);
  const found: GeneralName[] = [];
  while (!names.isDone) {
    const [tag, content] = names.any();
    found.push([tag, new TextDecoder("latin1").decode(content.rest())]);
  }
  return found;
}

function namesIn(names: readonly GeneralName[], hasOtherExtensions: boolean): RequestedExtensions {
  const textsOf = (wanted: number): string[] => [
    ...new Set(names.filter(([tag]) => tag === wanted).map(([, text]) => text)),
  ];
  return {
    uris: textsOf(uriName),
    dnsNames: textsOf(dnsName),
    hasOtherNames: names.some(([tag]) => tag !== uriName && tag !== dnsName),
    hasOtherExtensions,
  };
}
