import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import { der, hex, type Octets } from "../../testkit/der/mutation.ts";

export const sequence = (...parts: readonly Uint8Array[]): Octets => der(0x30, ...parts);
export const text = (tag: number, value: string): Octets => der(tag, Buffer.from(value));
export const uri = (value: string): Octets => text(0x86, value);
const directory = der(0xa4, sequence(der(0x31, sequence(hex("060355040a"), text(0x0c, "mesh")))));
export const permitted = (...bases: readonly Octets[]): Octets =>
  sequence(der(0xa0, ...bases.map((base) => sequence(base))));
const excluded = (...bases: readonly Octets[]): Octets =>
  sequence(der(0xa1, ...bases.map((base) => sequence(base))));
export const usages = (...some: readonly string[]): Octets =>
  Buffer.from(new x509.ExtendedKeyUsageExtension([...some]).value) as unknown as Octets;

const any = "2.5.29.37.0";
const { serverAuth, clientAuth, codeSigning } = x509.ExtendedKeyUsage;

/** What the import says, in part. */
const reasons = {
  eku: /extended key usage excludes server or client authentication/,
  policies: /has critical certificate policies, which ztunnel refuses/,
  broken: /not a certificate that verifiers agree on: the extension \w+ does not parse/,
  unknown: /has the critical extension [\d.]+, which verifiers refuse/,
  explicit: /requires an explicit policy, which no workload's certificate has/,
  excluding: /its name constraints exclude the trust domain/,
  rare: /its name constraints are about directory names .*, which Go refuses/,
  stranger: /carries the SPIFFE ID of another trust domain/,
  rareNames: /has critical names of rare kinds alone, which Go refuses/,
  described: /a critical authorityInfoAccess/,
  unauthorized: /certificate is not authorized to sign other certificates/,
  noUsage: /has no key usage, which a CA must have/,
} as const;

/** An extension, and what the import says of it where it is critical and where it is not. */
type ExtensionRow = readonly [
  name: string,
  oid: string,
  value: Octets,
  critical?: RegExp,
  not?: RegExp,
];

export const extensionRows: readonly ExtensionRow[] = [
  ["EKU of servers and clients", "2.5.29.37", usages(serverAuth, clientAuth)],
  ["EKU of both and code", "2.5.29.37", usages(serverAuth, clientAuth, codeSigning)],
  ["EKU of both and any", "2.5.29.37", usages(serverAuth, clientAuth, any)],
  ["EKU of servers", "2.5.29.37", usages(serverAuth), reasons.eku, reasons.eku],
  ["EKU of clients", "2.5.29.37", usages(clientAuth), reasons.eku, reasons.eku],
  ["EKU any", "2.5.29.37", usages(any), reasons.eku, reasons.eku],
  ["any policy", "2.5.29.32", sequence(sequence(hex("0604551d2000"))), reasons.policies],
  ["a policy", "2.5.29.32", sequence(sequence(hex("06032a0304"))), reasons.policies],
  [
    "a policy twice",
    "2.5.29.32",
    sequence(sequence(hex("06032a0304")), sequence(hex("06032a0304"))),
    reasons.broken,
    reasons.broken,
  ],
  [
    "requireExplicitPolicy",
    "2.5.29.36",
    sequence(hex("800100")),
    reasons.unknown,
    reasons.explicit,
  ],
  ["inhibitPolicyMapping", "2.5.29.36", sequence(hex("810100")), reasons.unknown],
  ["inhibitAnyPolicy", "2.5.29.54", hex("020100"), reasons.unknown],
  ["permitted URIs of the mesh", "2.5.29.30", permitted(uri("cluster.local"))],
  [
    "permitted URIs of others",
    "2.5.29.30",
    permitted(uri("other.test")),
    reasons.excluding,
    reasons.excluding,
  ],
  ["excluded URIs of others", "2.5.29.30", excluded(uri("other.test"))],
  [
    "excluded URIs of the mesh",
    "2.5.29.30",
    excluded(uri("cluster.local")),
    reasons.excluding,
    reasons.excluding,
  ],
  ["permitted DNS names", "2.5.29.30", permitted(text(0x82, "mesh.test"))],
  ["permitted mail addresses", "2.5.29.30", permitted(text(0x81, "mesh.test"))],
  ["permitted IP addresses", "2.5.29.30", permitted(hex("87080a000000ff000000"))],
  ["permitted directory names", "2.5.29.30", permitted(directory), reasons.rare],
  ["excluded directory names", "2.5.29.30", excluded(directory), reasons.rare],
  ["excluded DNS names", "2.5.29.30", excluded(text(0x82, "mesh.test"))],
  ["excluded mail addresses", "2.5.29.30", excluded(text(0x81, "mesh.test"))],
  ["excluded IP addresses", "2.5.29.30", excluded(hex("87080a000000ff000000"))],
  ["no constraint in constraints", "2.5.29.30", sequence(), reasons.broken, reasons.broken],
  ["a SPIFFE ID of the mesh", "2.5.29.17", sequence(uri("spiffe://cluster.local"))],
  [
    "a SPIFFE ID of another",
    "2.5.29.17",
    sequence(uri("spiffe://other.test")),
    reasons.stranger,
    reasons.stranger,
  ],
  ["a SPIFFE ID of a workload", "2.5.29.17", sequence(uri("spiffe://cluster.local/ns/a/sa/b"))],
  ["a DNS name", "2.5.29.17", sequence(text(0x82, "ca.mesh.test"))],
  ["a mail address", "2.5.29.17", sequence(text(0x81, "ca@mesh.test"))],
  ["a directory name", "2.5.29.17", sequence(directory), reasons.rareNames],
  ["no name in names", "2.5.29.17", sequence(), reasons.broken, reasons.broken],
  [
    "another name of the issuer",
    "2.5.29.18",
    sequence(text(0x82, "ca.mesh.test")),
    reasons.unknown,
  ],
  [
    "where CRLs are",
    "2.5.29.31",
    sequence(sequence(der(0xa0, der(0xa0, uri("http://ca.test/crl"))))),
    reasons.unknown,
  ],
  [
    "where its issuer is",
    "1.3.6.1.5.5.7.1.1",
    sequence(sequence(hex("06082b06010505073002"), uri("http://ca.test/ca.cer"))),
    reasons.described,
  ],
  ["Netscape's type", "2.16.840.1.113730.1.1", hex("03020106"), reasons.unknown],
  ["an extension of nobody", "1.2.3.4", hex("0500"), reasons.unknown],
  ["key usage keyCertSign alone", "2.5.29.15", hex("03020204")],
  ["key usage as Istio's samples have it", "2.5.29.15", hex("030202e4")],
  [
    "key usage without keyCertSign",
    "2.5.29.15",
    hex("030205a0"),
    reasons.unauthorized,
    reasons.unauthorized,
  ],
  ["no key usage", "2.5.29.15", hex(""), reasons.noUsage],
  ["path length 0", "2.5.29.19", hex("30060101ff020100")],
  ["path length 1", "2.5.29.19", hex("30060101ff020101")],
  ["no path length", "2.5.29.19", hex("30030101ff")],
  ["no CA", "2.5.29.19", hex("3000"), reasons.unauthorized, reasons.unauthorized],
  ["no basic constraints", "2.5.29.19", hex(""), reasons.unauthorized],
];
