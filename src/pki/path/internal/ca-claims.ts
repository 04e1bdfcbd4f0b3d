import type { Bytes } from "../../encoding/bytes.ts";
import { DerError, type DerReader, derTrue, Tag } from "../../encoding/der-reader.ts";
import { readObjectIdentifier } from "../../encoding/internal/der-values.ts";
import { extensionsIn } from "../../x509/certificate-extensions.ts";
import {
  relativeNamesOf,
  requireDistinguishedName,
} from "../../x509/internal/distinguished-name.ts";
import type { GeneralName, NameConstraints, NameKind } from "./name-constraints.ts";

/** The claims of a CA's certificate in its extensions; `undefined` for an absent one. */
export interface CaClaims {
  readonly isAuthority: boolean;
  /** How many subordinate CAs may follow below it in a path. */
  readonly pathLength: number | undefined;
  readonly maySignCertificates: boolean | undefined;
  /** Object identifiers. */
  readonly extendedKeyUsages: readonly string[] | undefined;
  readonly names: readonly GeneralName[];
  readonly nameConstraints: NameConstraints | undefined;
  readonly subjectKeyIdentifier: Bytes | undefined;
  /** The key identifier in the authority key identifier. */
  readonly issuersKeyIdentifier: Bytes | undefined;
  readonly requiresExplicitPolicy: boolean;
  /** Object identifiers. */
  readonly criticalExtensions: readonly string[];
}

/** Object identifiers of the extensions that decide about a path. */
export const CaExtension = {
  subjectKeyIdentifier: "2.5.29.14",
  keyUsage: "2.5.29.15",
  subjectAltName: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  nameConstraints: "2.5.29.30",
  certificatePolicies: "2.5.29.32",
  authorityKeyIdentifier: "2.5.29.35",
  policyConstraints: "2.5.29.36",
  extKeyUsage: "2.5.29.37",
  authorityInfoAccess: "1.3.6.1.5.5.7.1.1",
} as const;

/**
 * Reads the extensions of a certificate that {@link parseForeignAuthority} accepts. Each must follow RFC 5280 to its last
 * octet, because verifiers differ in what they forgive. @throws DerError that names the extension.
 */
export function readCaClaims(signedBytes: Bytes): CaClaims {
  const found = new Map(
    extensionsIn(signedBytes).map((extension) => [readObjectIdentifier(extension.oid), extension]),
  );
  const read = <T>(
    name: keyof typeof CaExtension,
    reader: (content: DerReader) => T,
    tag: number = Tag.sequence,
  ): T | undefined => {
    const value = found.get(CaExtension[name])?.value;
    try {
      return value && reader(value.enterLast(tag));
    } catch (error) {
      if (!(error instanceof DerError)) throw error;
      throw new DerError(`the extension ${name} does not parse: ${error.message}`);
    }
  };
  const { isAuthority = false, pathLength } = read("basicConstraints", readBasicConstraints) ?? {};
  read("certificatePolicies", readPolicies);
  read("authorityInfoAccess", readAccessDescriptions);
  if (found.get(CaExtension.authorityInfoAccess)?.isCritical) {
    throw new DerError("a critical authorityInfoAccess (RFC 5280 §4.2.2.1)");
  }
  return {
    isAuthority,
    pathLength,
    maySignCertificates: read("keyUsage", readKeyCertSign, Tag.bitString),
    extendedKeyUsages: read("extKeyUsage", (list) => readList(list, readObjectIdentifier)),
    names: read("subjectAltName", readNames) ?? [],
    nameConstraints: read("nameConstraints", readNameConstraints),
    subjectKeyIdentifier: read("subjectKeyIdentifier", readKeyIdentifier, Tag.octetString),
    issuersKeyIdentifier: read("authorityKeyIdentifier", readIssuersKeyIdentifier),
    requiresExplicitPolicy: read("policyConstraints", readExplicitPolicy) ?? false,
    criticalExtensions: [...found].filter(([, { isCritical }]) => isCritical).map(([oid]) => oid),
  };
}

function readBasicConstraints(fields: DerReader) {
  const isAuthority = fields.nextIs(Tag.boolean);
  if (isAuthority) fields.literal(derTrue);
  const hasLength = fields.nextIs(Tag.integer);
  const pathLength = hasLength ? readSmallInteger(fields.content(Tag.integer)) : undefined;
  fields.finish();
  return { isAuthority, pathLength };
}

function readSmallInteger(content: Bytes): number {
  const [number = 0x80] = content;
  if (content.length !== 1 || number >= 0x80) throw new DerError("no small number");
  return number;
}

/** X.690 §11.2.2: without trailing zero bits. RFC 5280 §4.2.1.3: at least one bit. */
function readKeyCertSign(bits: DerReader): boolean {
  const unusedBits = bits.octet();
  const first = bits.octet();
  const last = bits.isDone ? first : bits.octet();
  const lowestBit = last & -last;
  if (!bits.isDone || last === 0 || unusedBits > 7 || lowestBit !== 1 << unusedBits) {
    throw new DerError("bits that are not minimal");
  }
  return (first & 0x04) !== 0;
}

function readPolicies(list: DerReader): void {
  const policies = readList(list, () => {
    const policy = list.enter(Tag.sequence);
    const oid = readObjectIdentifier(policy);
    policy.skipAll();
    return oid;
  });
  if (new Set(policies).size < policies.length) {
    throw new DerError("a policy twice (RFC 5280 §4.2.1.4)");
  }
}

/** Requires the form of RFC 5280 §4.2.2.1. Go reads this extension, and refuses a certificate in which it is malformed. */
function readAccessDescriptions(list: DerReader): void {
  readList(list, () => {
    const description = list.enter(Tag.sequence);
    readObjectIdentifier(description);
    readGeneralName(description);
    description.finish();
  });
}

function readExplicitPolicy(fields: DerReader): boolean {
  const [explicitPolicy, mapping] = [Tag.contextPrimitive(0), Tag.contextPrimitive(1)];
  const isRequired = fields.nextIs(explicitPolicy);
  if (isRequired) readSmallInteger(fields.content(explicitPolicy));
  if (fields.nextIs(mapping)) readSmallInteger(fields.content(mapping));
  fields.finish();
  return isRequired;
}

function readKeyIdentifier(identifier: DerReader): Bytes {
  if (identifier.isDone) throw new DerError("an empty identifier");
  return identifier.rest();
}

/** RFC 5280 §4.2.1.1. Issuer and serial number, which it may have as well, are skipped: only OpenSSL compares them. */
function readIssuersKeyIdentifier(fields: DerReader): Bytes | undefined {
  const tag = Tag.contextPrimitive(0);
  const identifier = fields.nextIs(tag) ? readKeyIdentifier(fields.enter(tag)) : undefined;
  fields.skipAll();
  return identifier;
}

/**
 * Reads the content of NameConstraints. @throws DerError for an empty extension, for a minimum or maximum, which RFC 5280
 * rules out, and for an IP range of neither eight nor 32 octets.
 */
function readNameConstraints(fields: DerReader): NameConstraints {
  const permitted = readSubtrees(fields, Tag.contextConstructed(0));
  const excluded = readSubtrees(fields, Tag.contextConstructed(1));
  fields.finish();
  if (permitted.length + excluded.length === 0) throw new DerError("no constraint");
  return { permitted, excluded };
}

function readSubtrees(fields: DerReader, tag: number): readonly GeneralName[] {
  if (!fields.nextIs(tag)) return [];
  return readList(fields.enter(tag), (list) => {
    const subtree = list.enter(Tag.sequence);
    const base = readGeneralName(subtree);
    subtree.finish();
    if (base.kind === "ip" && base.octets !== 8 && base.octets !== 32) {
      throw new DerError("no range of IP addresses");
    }
    return base;
  });
}

/** Reads the elements of a list, at least one, to its end. */
function readList<T>(list: DerReader, read: (list: DerReader) => T): readonly T[] {
  const elements: T[] = [];
  do elements.push(read(list));
  while (!list.isDone);
  return elements;
}

/** otherName, x400Address and ediPartyName. */
const structured: readonly number[] = [0, 3, 5].map(Tag.contextConstructed);

const kinds: readonly (readonly [tag: number, kind: NameKind])[] = [
  [Tag.contextPrimitive(1), "email"],
  [Tag.contextPrimitive(2), "dns"],
  [Tag.contextConstructed(4), "directory"],
  [Tag.contextPrimitive(6), "uri"],
  [Tag.contextPrimitive(7), "ip"],
  [Tag.contextPrimitive(8), "other"],
  ...structured.map((tag) => [tag, "other"] as const),
];

const textKinds: readonly NameKind[] = ["email", "dns", "uri"];

/** Reads the next GeneralName. @throws DerError for anything else */
function readGeneralName(names: DerReader): GeneralName {
  const found = kinds.find(([tag]) => names.nextIs(tag));
  if (!found) throw new DerError("a name of no kind of RFC 5280 §4.2.1.6");
  const [tag, kind] = found;
  const content = names.enter(tag);
  const octets = content.length;
  const isDirectory = kind === "directory";
  if (isDirectory) requireDistinguishedName(content.rest());
  const relativeNames = isDirectory ? relativeNamesOf(content.rest()) : [];
  const text = textKinds.includes(kind) ? readIa5(content) : "";
  if (structured.includes(tag)) content.skipAll();
  return { kind, text, octets, relativeNames };
}

/** Reads an IA5String, and refuses control characters, which no name of a mesh has. */
function readIa5(content: DerReader): string {
  let text = "";
  while (!content.isDone) {
    const octet = content.octet();
    if (octet < 0x20 || octet > 0x7e) throw new DerError("a name that is not printable ASCII");
    text += String.fromCharCode(octet);
  }
  return text;
}

/**
 * The names of a subject alternative name, whose URIs {@link parseForeignAuthority} has checked.
 *
 * @throws DerError if there is no name (RFC 5280 §4.2.1.6), and for an IP address of neither four nor sixteen octets.
 */
function readNames(list: DerReader): readonly GeneralName[] {
  const names = readList(list, readGeneralName);
  if (names.some(({ kind, octets }) => kind === "ip" && octets !== 4 && octets !== 16)) {
    throw new DerError("no IP address");
  }
  return names;
}
