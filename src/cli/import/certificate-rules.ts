import type { Bytes } from "../../pki/encoding/bytes.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { type TrustDomain, trustDomainSpiffeId } from "../../pki/spiffe-id.ts";
import type { CertificationPath } from "./certification-path.ts";
import type { ImportedCertificate } from "./imported-certificate.ts";
import { admitsHost } from "./name-constraints.ts";

/** The position of a certificate in a path, and the circumstances of the check. */
interface Place {
  /** The number of authorities below it. */
  readonly depth: number;
  readonly isRoot: boolean;
  readonly trustDomain: TrustDomain;
  readonly now: Date;
}

type Rule = (certificate: ImportedCertificate, place: Place) => string | false;

/** Hashes that verifiers still accept in a signature; Ed25519 has its own. */
const acceptedHashes: readonly string[] = ["SHA-256", "SHA-384", "SHA-512", "Ed25519"];

/** Extensions that every verifier of a mesh processes: names, usages, constraints, policies. */
const understood: readonly string[] = [
  "2.5.29.14",
  "2.5.29.15",
  "2.5.29.17",
  "2.5.29.19",
  "2.5.29.30",
  "2.5.29.32",
  "2.5.29.37",
];

const serverAuth = "1.3.6.1.5.5.7.3.1";
const clientAuth = "1.3.6.1.5.5.7.3.2";
const anyUsage = "2.5.29.37.0";

const rules: readonly Rule[] = [
  ({ toBeSigned: { validity } }, { now }) =>
    now < validity.notBefore && `is not valid before ${validity.notBefore.toISOString()}`,
  ({ toBeSigned: { validity } }, { now }) =>
    now >= validity.notAfter && `has expired at ${validity.notAfter.toISOString()}`,
  // A root of version 1 has no basic constraints; the operator's trust makes it an authority.
  ({ claims, toBeSigned }, { isRoot, depth }) =>
    !claims.isAuthority &&
    !(isRoot && depth > 0 && toBeSigned.version === 1) &&
    "certificate is not authorized to sign other certificates: it is no CA",
  // RFC 5280 §4.2.1.3 requires key usage in a CA; verifiers take its absence for permission.
  ({ claims }) =>
    claims.maySignCertificates === false &&
    "certificate is not authorized to sign other certificates: no keyCertSign in its key usage",
  ({ claims }, { depth }) =>
    claims.pathLength !== undefined &&
    claims.pathLength < depth &&
    `its path length of ${claims.pathLength} is less than the ${depth} authorities below it`,
  ({ claims: { extendedKeyUsages: usages } }) =>
    usages !== undefined &&
    !usages.includes(anyUsage) &&
    !(usages.includes(serverAuth) && usages.includes(clientAuth)) &&
    "its extended key usage excludes server or client authentication, so that no workload could be verified",
  ({ claims }, { isRoot }) =>
    !isRoot &&
    !acceptedHashes.includes(claims.signatureHash) &&
    `is signed with ${claims.signatureHash}, which verifiers refuse`,
  ({ claims }) => {
    const unknown = claims.criticalExtensions.find((oid) => !understood.includes(oid));
    return unknown !== undefined && `has the critical extension ${unknown}, which verifiers refuse`;
  },
  ({ toBeSigned }) => toBeSigned.subject.length <= 2 && "has no subject",
  ({ claims: { nameConstraints } }, { trustDomain }) =>
    nameConstraints !== undefined &&
    !permits(nameConstraints, trustDomain) &&
    `its name constraints exclude the trust domain ${trustDomain}`,
  ({ claims }, { depth, trustDomain }) =>
    depth === 0 &&
    claims.spiffeIds.some((id) => !isOf(trustDomain, id)) &&
    `carries the SPIFFE ID of another trust domain than ${trustDomain}`,
];

function permits(nameConstraints: Bytes, trustDomain: TrustDomain): boolean {
  try {
    return admitsHost(nameConstraints, trustDomain);
  } catch (error) {
    if (error instanceof DerError) return false;
    throw error;
  }
}

/** One line for each rule that a certificate of the path breaks. */
export function faultsOf(path: CertificationPath, trustDomain: TrustDomain, now: Date): string[] {
  const faults = path.flatMap((certificate, depth) => {
    const place = { depth, isRoot: depth === path.length - 1, trustDomain, now };
    return rules
      .map((rule) => rule(certificate, place))
      .filter((fault) => fault !== false)
      .map((fault) => `${certificate.title}: ${fault}`);
  });
  return faults.length > 0 ? faults : misfitsIn(path);
}

/** The links that OpenSSL refuses. OpenSSL gives no reason, so it is asked only when the rules find nothing. */
function misfitsIn(path: CertificationPath): string[] {
  return path.flatMap((certificate, depth) => {
    const issuer = path[depth + 1] ?? certificate;
    if (certificate.verifier.checkIssued(issuer.verifier)) return [];
    const identifier = "its authority key identifier is not the issuer's";
    return [
      `${certificate.title}: ${identifier}, or OpenSSL refuses an extension: ${issuer.title}`,
    ];
  });
}

/** Warnings about properties of a path that are legal and surprising. */
export function warningsOf(path: CertificationPath, trustDomain: TrustDomain): string[] {
  return path.flatMap((certificate, depth) => {
    const { spiffeIds, nameConstraints } = certificate.claims;
    const warnings: string[] = [];
    if (nameConstraints) {
      warnings.push("has name constraints; not every verifier applies them to SPIFFE IDs alike");
    }
    // Trust domains may share a root, whose own SPIFFE ID does not bind the authorities below it.
    if (depth > 0 && spiffeIds.some((id) => !isOf(trustDomain, id))) {
      warnings.push("carries a SPIFFE ID of another trust domain");
    }
    if (spiffeIds.some((id) => id.startsWith(`${trustDomainSpiffeId(trustDomain)}/`))) {
      warnings.push("carries the SPIFFE ID of a workload (X509-SVID §2 asks for none with a path)");
    }
    return warnings.map((warning) => `${certificate.title}: ${warning}`);
  });
}

function isOf(trustDomain: TrustDomain, spiffeId: string): boolean {
  const own = trustDomainSpiffeId(trustDomain);
  return spiffeId === own || spiffeId.startsWith(`${own}/`);
}
