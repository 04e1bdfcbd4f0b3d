import type { Bytes } from "../../encoding/bytes.ts";
import { DerError, type DerReader, derTrue, Tag } from "../../encoding/der-reader.ts";
import { readObjectIdentifier } from "../../encoding/internal/der-values.ts";
import { extensionsIn } from "../../x509/certificate-extensions.ts";
import {
  type GeneralName,
  type NameConstraints,
  readGeneralName,
  readNameConstraints,
  readNames,
} from "./name-constraints.ts";

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
 * Reads the extensions of a certificate that {@link parseForeignAuthority} accepts. Each must follow
 * RFC 5280 to its last octet, because verifiers differ in what they forgive.
 *
 * @throws DerError that names the extension.
 */
export function readCaClaims(signedBytes: Bytes): CaClaims {
  const found = new Map(
    extensionsIn(signedBytes).map((extension) => [readObjectIdentifier(extension.oid), extension]),
  );
  const read = <T>(
    oid: keyof typeof CaExtension,
    reader: (value: DerReader) => T,
  ): T | undefined => {
    const extension = found.get(CaExtension[oid]);
    return extension && readAs(oid, () => reader(extension.value));
  };
  const constraints = read("basicConstraints", readBasicConstraints);
  read("certificatePolicies", readPolicies);
  read("authorityInfoAccess", readAccessDescriptions);
  if (found.get(CaExtension.authorityInfoAccess)?.isCritical) {
    throw new DerError("a critical authorityInfoAccess (RFC 5280 §4.2.2.1)");
  }
  return {
    isAuthority: constraints?.isAuthority ?? false,
    pathLength: constraints?.pathLength,
    maySignCertificates: read("keyUsage", readKeyCertSign),
    extendedKeyUsages: read("extKeyUsage", readObjectIdentifiers),
    names: read("subjectAltName", readNames) ?? [],
    nameConstraints: read("nameConstraints", readNameConstraints),
    subjectKeyIdentifier: read("subjectKeyIdentifier", readKeyIdentifier),
    issuersKeyIdentifier: read("authorityKeyIdentifier", readIssuersKeyIdentifier),
    requiresExplicitPolicy: read("policyConstraints", readExplicitPolicy) ?? false,
    criticalExtensions: [...found].filter(([, { isCritical }]) => isCritical).map(([oid]) => oid),
  };
}

function readAs<T>(extension: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new DerError(`the extension ${extension} does not parse: ${error.message}`);
  }
}

function readBasicConstraints(value: DerReader) {
  const fields = value.enter(Tag.sequence);
  value.finish();
  const isAuthority = !fields.isDone && fields.nextIs(Tag.boolean);
  if (isAuthority) fields.literal(derTrue);
  const pathLength = fields.nextIs(Tag.integer)
    ? readSmallInteger(fields.content(Tag.integer))
    : undefined;
  fields.finish();
  return { isAuthority, pathLength };
}

function readSmallInteger(content: Bytes): number {
  const [number = 0x80] = content;
  if (content.length !== 1 || number >= 0x80) throw new DerError("no small number");
  return number;
}

/** X.690 §11.2.2: without trailing zero bits. RFC 5280 §4.2.1.3: at least one bit. */
function readKeyCertSign(value: DerReader): boolean {
  const content = value.enter(Tag.bitString);
  value.finish();
  const unusedBits = content.octet();
  const first = content.octet();
  const last = content.isDone ? first : content.octet();
  const lowestBit = last & -last;
  if (!content.isDone || last === 0 || unusedBits > 7 || lowestBit !== 1 << unusedBits) {
    throw new DerError("bits that are not minimal");
  }
  return (first & 0x04) !== 0;
}

function readObjectIdentifiers(value: DerReader): readonly string[] {
  const list = value.enter(Tag.sequence);
  value.finish();
  const oids: string[] = [];
  do oids.push(readObjectIdentifier(list));
  while (!list.isDone);
  return oids;
}

function readPolicies(value: DerReader): void {
  const list = value.enter(Tag.sequence);
  value.finish();
  const policies = new Set<string>();
  do {
    const policy = list.enter(Tag.sequence);
    const oid = readObjectIdentifier(policy);
    if (policies.has(oid)) throw new DerError("a policy twice (RFC 5280 §4.2.1.4)");
    policies.add(oid);
    policy.skipAll();
  } while (!list.isDone);
}

/** Requires the form of RFC 5280 §4.2.2.1. Go reads this extension, and refuses a certificate in which it is malformed. */
function readAccessDescriptions(value: DerReader): void {
  const list = value.enter(Tag.sequence);
  value.finish();
  do {
    const description = list.enter(Tag.sequence);
    readObjectIdentifier(description);
    readGeneralName(description);
    description.finish();
  } while (!list.isDone);
}

function readExplicitPolicy(value: DerReader): boolean {
  const fields = value.enter(Tag.sequence);
  value.finish();
  const [requireExplicitPolicy, inhibitMapping] = [0, 1].map(Tag.contextPrimitive) as [
    number,
    number,
  ];
  const isRequired = fields.nextIs(requireExplicitPolicy);
  if (isRequired) readSmallInteger(fields.content(requireExplicitPolicy));
  if (fields.nextIs(inhibitMapping)) readSmallInteger(fields.content(inhibitMapping));
  fields.finish();
  return isRequired;
}

function readKeyIdentifier(value: DerReader): Bytes {
  const identifier = value.content(Tag.octetString);
  value.finish();
  if (identifier.length === 0) throw new DerError("an empty identifier");
  return identifier;
}

/** RFC 5280 §4.2.1.1. Issuer and serial number, which it may have as well, are skipped: only OpenSSL compares them. */
function readIssuersKeyIdentifier(value: DerReader): Bytes | undefined {
  const fields = value.enter(Tag.sequence);
  value.finish();
  const tag = Tag.contextPrimitive(0);
  const identifier = fields.nextIs(tag) ? fields.content(tag) : undefined;
  fields.skipAll();
  if (identifier?.length === 0) throw new DerError("an empty identifier");
  return identifier;
}
