import { bytesEqual } from "../encoding/bytes.ts";
import { type TrustDomain, trustDomainSpiffeId } from "../spiffe-id.ts";
import { type CaCertificate, isSelfIssued } from "./ca-certificate.ts";
import { CaExtension } from "./ca-claims.ts";
import type { CertificationPath } from "./certification-path.ts";
import type { NameKind } from "./general-names.ts";
import { admitsHost, type NameConstraints } from "./name-constraints.ts";

/** The position of a certificate in a path, and the circumstances of the check. */
interface Place {
  /** The number of authorities below it. */
  readonly depth: number;
  readonly isAnchor: boolean;
  readonly trustDomain: TrustDomain;
  readonly now: Date;
}

type Rule = (certificate: CaCertificate, place: Place) => string | false;

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

const rules: readonly Rule[] = [
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
    names.every(({ kind }) => kind === "directory" || kind === "other") &&
    "has critical names of rare kinds alone, which Go refuses",
  ({ claims }) =>
    claims.requiresExplicitPolicy &&
    "requires an explicit policy, which no workload's certificate has",
  ({ toBeSigned }) => toBeSigned.subject.length <= 2 && "has no subject",
  ({ claims }, { trustDomain }) =>
    claims.nameConstraints !== undefined &&
    constraintFault(claims, claims.nameConstraints, trustDomain),
  ({ claims }, { depth, trustDomain }) =>
    depth === 0 &&
    spiffeIdsOf(claims.names).some((id) => !isOf(trustDomain, id)) &&
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
  const all = [...constraints.permitted, ...constraints.excluded];
  if (!admitsHost(constraints, trustDomain)) {
    return `its name constraints exclude the trust domain ${trustDomain}`;
  }
  return (
    criticalExtensions.includes(CaExtension.nameConstraints) &&
    all.some(({ kind }) => kind === "directory" || kind === "other") &&
    "its name constraints are about directory names or names of rare kinds, which Go refuses"
  );
}

/** ztunnel's verifier (rustls-webpki) builds no path with more. */
const maximumIntermediates = 6;

/** One line for each rule that a certificate of the path breaks. */
export function faultsOf(path: CertificationPath, trustDomain: TrustDomain, now: Date): string[] {
  const faults = path.flatMap((certificate, depth) => {
    const place = { depth, isAnchor: depth === path.length - 1, trustDomain, now };
    return rules
      .map((rule) => rule(certificate, place))
      .filter((fault) => fault !== false)
      .map((fault) => `${certificate.title}: ${fault}`);
  });
  const [authority] = path;
  const intermediates = path.length - 1;
  if (intermediates > maximumIntermediates) {
    faults.push(
      `${authority.title}: has ${intermediates} intermediates; ztunnel verifies ${maximumIntermediates}`,
    );
  }
  return faults;
}

/** Warnings about properties of a path that are legal and surprising. */
export function warningsOf(path: CertificationPath, trustDomain: TrustDomain): string[] {
  return path.flatMap((certificate, depth) => {
    const { names, nameConstraints } = certificate.claims;
    const isAnchor = depth === path.length - 1;
    const spiffeIds = spiffeIdsOf(names);
    const warnings = nameConstraints ? constraintWarnings(nameConstraints) : [];
    // Trust domains may share a root, whose own SPIFFE ID does not bind the authorities below it.
    if (depth > 0 && spiffeIds.some((id) => !isOf(trustDomain, id))) {
      warnings.push("carries a SPIFFE ID of another trust domain");
    }
    if (spiffeIds.some((id) => id.startsWith(`${trustDomainSpiffeId(trustDomain)}/`))) {
      warnings.push("carries the SPIFFE ID of a workload (X509-SVID §2 asks for none with a path)");
    }
    const lacking = lackingIn(certificate, isAnchor);
    if (lacking.length > 0) {
      const list = lacking.join(" and ");
      warnings.push(`has ${list}; \`openssl -x509_strict\` and Python 3.13 refuse it`);
    }
    if (isAnchor && !namesItselfAsIssuer(certificate)) {
      warnings.push(
        "is an anchor that is not self-signed, or names another key as its issuer's; OpenSSL refuses it without -partial_chain",
      );
    }
    return warnings.map((warning) => `${certificate.title}: ${warning}`);
  });
}

/** OpenSSL compares key identifiers, too, where a certificate has both. */
function namesItselfAsIssuer(certificate: CaCertificate): boolean {
  const { subjectKeyIdentifier: own, issuersKeyIdentifier: issuers } = certificate.claims;
  return isSelfIssued(certificate) && (!own || !issuers || bytesEqual(own, issuers));
}

/** Parts that RFC 5280 §4.2.1 asks of a CA, and that most verifiers of a mesh do without. */
function lackingIn({ claims, toBeSigned }: CaCertificate, isAnchor: boolean): string[] {
  if (toBeSigned.version !== 3) return [];
  const { criticalExtensions, maySignCertificates, subjectKeyIdentifier, issuersKeyIdentifier } =
    claims;
  return [
    maySignCertificates === undefined && "no key usage",
    !criticalExtensions.includes(CaExtension.basicConstraints) &&
      "basic constraints that are not critical",
    subjectKeyIdentifier === undefined && "no subject key identifier",
    !isAnchor && issuersKeyIdentifier === undefined && "no authority key identifier",
  ].filter((each) => each !== false);
}

const rareKinds: readonly NameKind[] = ["ip", "email", "directory", "other"];

function constraintWarnings({ permitted, excluded }: NameConstraints): string[] {
  const kinds = new Set([...permitted, ...excluded].map(({ kind }) => kind));
  const warnings: string[] = [];
  if (kinds.has("uri")) {
    const verifiers = excluded.some(({ kind }) => kind === "uri")
      ? "ztunnel and GnuTLS refuse"
      : "ztunnel refuses";
    warnings.push(`has name constraints on URIs; ${verifiers} every certificate below it`);
  }
  if (excluded.some(({ kind }) => kind === "directory")) {
    warnings.push("excludes directory names; GnuTLS refuses every certificate below it");
  }
  if (kinds.has("dns")) {
    warnings.push("has name constraints on DNS names, which bind the certificates of servers");
  }
  if (rareKinds.some((kind) => kinds.has(kind))) {
    warnings.push("has name constraints on names that no certificate of Rampart carries");
  }
  return warnings;
}

function spiffeIdsOf(names: CaCertificate["claims"]["names"]): string[] {
  return names
    .filter(({ kind, text }) => kind === "uri" && text.startsWith("spiffe://"))
    .map(({ text }) => text);
}

function isOf(trustDomain: TrustDomain, spiffeId: string): boolean {
  const own = trustDomainSpiffeId(trustDomain);
  return spiffeId === own || spiffeId.startsWith(`${own}/`);
}
