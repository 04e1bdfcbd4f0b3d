import { SpiffeId, type TrustDomain } from "../spiffe-id.ts";
import { CaCertificate, type CertificationPath } from "./certification-path.ts";
import { CaExtension } from "./internal/ca-claims.ts";
import {
  admitsHost,
  admitsName,
  admitsSubject,
  type GeneralName,
  type NameConstraints,
} from "./internal/name-constraints.ts";

/** The position of a certificate in a path that is verified for a trust domain. */
interface PathPosition {
  /** The number of CA certificates below it in the path. */
  readonly depth: number;
  readonly isAnchor: boolean;
  readonly trustDomain: TrustDomain;
  readonly now: Date;
}

/** Describes a fault or another property of a certificate in a path; `false` if the certificate does not have it. */
export type PathRule = (certificate: CaCertificate, position: PathPosition) => string | false;

const serverAuth = "1.3.6.1.5.5.7.3.1";
const clientAuth = "1.3.6.1.5.5.7.3.2";

/** Extensions that every verifier of a mesh processes: names, usages, constraints. */
const understood: readonly string[] = [
  CaExtension.subjectKeyIdentifier,
  CaExtension.keyUsage,
  CaExtension.subjectAltName,
  CaExtension.basicConstraints,
  CaExtension.nameConstraints,
  CaExtension.extKeyUsage,
];

const faults: readonly PathRule[] = [
  ({ toBeSigned: { validity } }, { now }) =>
    now < validity.notBefore && `is not valid before ${validity.notBefore.toISOString()}`,
  ({ toBeSigned: { validity } }, { now }) =>
    now >= validity.notAfter && `has expired at ${validity.notAfter.toISOString()}`,
  // RFC 5280 §4.1.2.2; verifiers forgive an anchor, whose number they never read.
  ({ toBeSigned: { serialNumber } }, { isAnchor }) =>
    !isAnchor && serialNumber.length > 20 && "has a serial number of more than 20 octets",
  // A root of version 1 has no basic constraints; the operator's trust makes it an authority.
  ({ claims, toBeSigned }, { isAnchor, depth }) =>
    !claims.isAuthority &&
    !(isAnchor && depth > 0 && toBeSigned.version === 1) &&
    "certificate is not authorized to sign other certificates: it is no CA",
  ({ claims }) =>
    claims.maySignCertificates === false &&
    "certificate is not authorized to sign other certificates: no keyCertSign in its key usage",
  ({ claims }, { isAnchor }) =>
    !isAnchor &&
    claims.maySignCertificates === undefined &&
    "has no key usage, which a CA must have (RFC 5280 §4.2.1.3)",
  ({ claims }, { depth }) =>
    claims.pathLength !== undefined &&
    claims.pathLength < depth &&
    `its path length of ${claims.pathLength} is less than the ${depth} authorities below it`,
  ({ claims: { extendedKeyUsages: usages } }) =>
    usages !== undefined &&
    !(usages.includes(serverAuth) && usages.includes(clientAuth)) &&
    "its extended key usage excludes server or client authentication, so that no workload could be verified (anyExtendedKeyUsage does not count with OpenSSL, GnuTLS, NSS and ztunnel)",
  ({ claims }, { isAnchor }) => criticalFault(claims.criticalExtensions, isAnchor),
  ({ claims: { criticalExtensions, names } }) =>
    criticalExtensions.includes(CaExtension.subjectAltName) &&
    names.every(isOfRareKind) &&
    "has critical names of rare kinds alone, which Go refuses",
  ({ claims }) =>
    claims.requiresExplicitPolicy &&
    "requires an explicit policy, which no workload's certificate has",
  ({ toBeSigned }) => toBeSigned.subject.length <= 2 && "has no subject",
  ({ claims }, { trustDomain }) =>
    claims.nameConstraints !== undefined &&
    constraintFault(claims, claims.nameConstraints, trustDomain),
  (certificate, { depth, trustDomain }) =>
    depth === 0 &&
    spiffeIdsOf(certificate).some((id) => !isOf(trustDomain, id)) &&
    `carries the SPIFFE ID of another trust domain than ${trustDomain}`,
];

function criticalFault(critical: readonly string[], isAnchor: boolean): string | false {
  const policies = CaExtension.certificatePolicies;
  if (!isAnchor && critical.includes(policies)) {
    return "has critical certificate policies, which ztunnel refuses";
  }
  const unknown = critical.find((oid) => !understood.includes(oid) && oid !== policies);
  return unknown !== undefined && `has the critical extension ${unknown}, which verifiers refuse`;
}

/** Go, and with it istiod, refuses a constraint on names that it does not compare. */
function constraintFault(
  { criticalExtensions }: CaCertificate["claims"],
  constraints: NameConstraints,
  trustDomain: TrustDomain,
): string | false {
  if (!admitsHost(constraints, trustDomain)) {
    return `its name constraints exclude the trust domain ${trustDomain}`;
  }
  return (
    criticalExtensions.includes(CaExtension.nameConstraints) &&
    [...constraints.permitted, ...constraints.excluded].some(isOfRareKind) &&
    "its name constraints are about directory names or names of rare kinds, which Go refuses"
  );
}

/** Whether Go does not compare a name of this kind. */
const isOfRareKind = ({ kind }: GeneralName): boolean => kind === "directory" || kind === "other";

/**
 * Go and OpenSSL compare name constraints with the alternative names of the CAs below; OpenSSL and BoringSSL compare them
 * with the subjects of these CAs. Self-issued CAs are exempt. A workload's certificate has no subject.
 */
function namesBelowFaults(
  { claims: { nameConstraints }, title }: CaCertificate,
  below: readonly CaCertificate[],
): (string | false)[] {
  if (!nameConstraints) return [];
  const excluded = `${title}: its name constraints exclude`;
  return below
    .filter((each) => !CaCertificate.isSelfIssued(each))
    .flatMap((each) => [
      !admitsSubject(nameConstraints, each.toBeSigned.subject) &&
        `${excluded} the subject of ${each.title}, so that OpenSSL and Envoy refuse every leaf`,
      each.claims.names.some((name) => !admitsName(nameConstraints, name)) &&
        `${excluded} a name of ${each.title}, so that every verifier refuses every leaf`,
    ]);
}

/** ztunnel's verifier (rustls-webpki) builds no path with more. */
const maximumIntermediates = 6;

/** One line for each rule that a path breaks; empty if none. It verifies no signatures: `findPath` has done so. */
export function faultsOf(path: CertificationPath, trustDomain: TrustDomain, now: Date): string[] {
  const intermediates = path.length - 1;
  return [
    ...linesOf(faults, path, trustDomain, now),
    ...path.flatMap((certificate, depth) => namesBelowFaults(certificate, path.slice(0, depth))),
    intermediates > maximumIntermediates &&
      `${path[0].title}: has ${intermediates} intermediates; ztunnel verifies ${maximumIntermediates}`,
  ].filter((line) => line !== false);
}

/** One line for each rule that applies to a certificate of the path, with its title and the text that the rule returned. */
export function linesOf(
  rules: readonly PathRule[],
  path: CertificationPath,
  trustDomain: TrustDomain,
  now: Date,
): string[] {
  return path.flatMap((certificate, depth) => {
    const position = { depth, isAnchor: depth === path.length - 1, trustDomain, now };
    return rules
      .map((rule) => rule(certificate, position))
      .filter((line) => line !== false)
      .map((line) => `${certificate.title}: ${line}`);
  });
}

/** The SPIFFE IDs of a CA certificate. */
export function spiffeIdsOf({ claims: { names } }: CaCertificate): string[] {
  return names
    .filter(({ kind, text }) => kind === "uri" && text.startsWith("spiffe://"))
    .map(({ text }) => text);
}

/** Whether a SPIFFE ID is the trust domain's own, or one within it. */
export function isOf(trustDomain: TrustDomain, spiffeId: string): boolean {
  const own = SpiffeId.ofTrustDomain(trustDomain);
  return spiffeId === own || spiffeId.startsWith(`${own}/`);
}
