import { OperatorError } from "../../foundation/errors.ts";
import type { AuthorityCertificates } from "../authority/signing-authority.ts";
import { Bytes, Hex } from "../encoding/bytes.ts";
import { SpiffeId, type TrustDomain } from "../spiffe-id.ts";
import { refusedAlgorithmOf } from "../x509/certificate-signature.ts";
import { earlier } from "../x509/validity.ts";
import { CaCertificate, type CertificationPath, findPath, isAmong } from "./certification-path.ts";
import { CaExtension } from "./internal/ca-claims.ts";
import type { NameKind } from "./internal/name-constraints.ts";
import { faultsOf, isOf, linesOf, type PathRule, spiffeIdsOf } from "./path-rules.ts";

/** An authority that somebody else certified, with all certificates that came with it. */
interface OfferedAuthority {
  readonly authority: CaCertificate;
  /** Certificates between the authority and its root, and others, in any order; not trusted. */
  readonly others: readonly CaCertificate[];
  /** The roots that its provider trusts. Empty only where the authority may be its own root. */
  readonly anchors: readonly CaCertificate[];
}

/** An authority whose leaves the verifiers of a mesh will accept. */
export interface VerifiedAuthority {
  /** `roots` has only the root that the authority chains to. */
  readonly certificates: AuthorityCertificates;
  readonly path: CertificationPath;
  /** The earliest `notAfter` from the authority to its root: nothing verifies after it. */
  readonly notAfter: Date;
  /** The other anchors that have not expired, DER, without duplicates. */
  readonly additionalRoots: readonly Bytes[];
  /** Sentences for the operator about properties that are legal and surprising. */
  readonly warnings: readonly string[];
}

/** Verifies the authorities of other CAs. */
export const VerifiedAuthority = {
  /**
   * Verifies an authority as istiod does, and as the verifiers of its leaves will. Every link up to an
   * anchor must hold by name and signature, and no certificate on the path may forbid the leaves.
   *
   * @throws OperatorError with one line for each fault.
   */
  async verify(
    { authority, others, anchors }: OfferedAuthority,
    trustDomain: TrustDomain,
    now: Date,
  ): Promise<VerifiedAuthority> {
    requireNone(await signatureFaults([authority, ...anchors]));
    const path = await findPath(authority, { intermediates: others, anchors }, now);
    requireNone(faultsOf(path, trustDomain, now));
    const notAfter = path.map(({ toBeSigned }) => toBeSigned.validity.notAfter).reduce(earlier);
    const spare = anchors.filter((anchor) => !isAmong(anchor, path));
    const expired = spare.filter(({ toBeSigned }) => toBeSigned.validity.notAfter <= now);
    return {
      certificates: certificatesOf(path),
      path,
      notAfter,
      additionalRoots: spare.filter((anchor) => !expired.includes(anchor)).map(({ der }) => der),
      warnings: [
        ...linesOf(pathWarnings, path, trustDomain, now),
        ...lifetimeWarnings(path, notAfter, now),
        ...chainWarnings(others, path, anchors),
        ...expired.map(({ title }) => `${title}: is left out, because it has expired`),
      ],
    };
  },

  /** The most certificates of a chain, and the most roots: a sealed record takes no more. Callers of `verify` check both. */
  maximumCertificates: 8,
};

function requireNone(faults: readonly string[]): void {
  if (faults.length > 0) throw new OperatorError([...new Set(faults)].join("\n"));
}

/**
 * A self-signed certificate must have its own signature, although no verifier looks at an anchor's
 * (RFC 5280 §6.1.1 (d)): a wrong one means a damaged file. Old roots signed with SHA-1 pass.
 */
async function signatureFaults(certificates: readonly CaCertificate[]): Promise<string[]> {
  const faults: string[] = [];
  for (const certificate of certificates) {
    if (!CaCertificate.isSelfIssued(certificate) || refusedAlgorithmOf(certificate)) continue;
    if (await CaCertificate.isIssuedBy(certificate, certificate)) continue;
    faults.push(`${certificate.title}: names itself as its issuer, but did not sign itself`);
  }
  return faults;
}

function certificatesOf(path: CertificationPath): AuthorityCertificates {
  const [authority, ...above] = path;
  const root = above.at(-1) ?? authority;
  const intermediates = root === authority ? [] : path.slice(0, -1);
  return {
    certificate: authority.der,
    intermediates: intermediates.map(({ der }) => der),
    roots: [root.der],
  };
}

/**
 * Warns that unused certificates were left out of a chain, and that the order of the others was corrected. istiod would
 * serve the chain as it is.
 */
function chainWarnings(
  found: readonly CaCertificate[],
  path: CertificationPath,
  anchors: readonly CaCertificate[],
): string[] {
  const warnings = found
    .filter((certificate) => !isAmong(certificate, [...path, ...anchors]))
    .map((stray) =>
      CaCertificate.isSelfIssued(stray)
        ? `${stray.title}: is left out, because it is self-signed and not among the roots`
        : `${stray.title}: is left out, because the authority does not need it`,
    );
  const places = path
    .map((certificate) => found.findIndex((each) => isAmong(each, [certificate])))
    .filter((place) => place >= 0);
  const [first] = found;
  if (first && places.some((place, i) => place < (places[i - 1] ?? 0))) {
    warnings.push(`${first.title}: the chain is not in order from the authority up, and is sorted`);
  }
  return warnings;
}

/** Istio's longest life of a leaf (`MAX_WORKLOAD_CERT_TTL`): a successor needs that long to take over. */
const warningDays = 90;
const dayMilliseconds = 86_400_000;

/** Warnings about an authority that lives for a short time, or whose issuer expires before it. */
function lifetimeWarnings([authority]: CertificationPath, notAfter: Date, now: Date): string[] {
  const days = Math.floor((notAfter.getTime() - now.getTime()) / dayMilliseconds);
  const iso = notAfter.toISOString();
  const warnings: string[] = [];
  if (notAfter < authority.toBeSigned.validity.notAfter) {
    warnings.push(`${authority.title}: outlives a certificate above it, which expires at ${iso}`);
  }
  if (days < warningDays) {
    warnings.push(`${authority.title}: can be used for ${days} more days only, until ${iso}`);
  }
  return warnings;
}

/** ecdsa-with-SHA512 (RFC 5758 §3.2). */
const ecdsaWithSha512 = Hex.parseLiteral("300a06082a8648ce3d040304");

/** Of the libraries with which ztunnel can be built, ring verifies the fewest kinds of signature. */
const refusedByRing = "which a ztunnel built with ring refuses";

/** Properties of a path that are legal and surprising. */
const pathWarnings: readonly PathRule[] = [
  neverCompared("uri", "URIs"),
  neverCompared("directory", "directory names"),
  (certificate) =>
    constrains(certificate, ["dns"]) &&
    "has name constraints on DNS names, which bind the certificates of servers",
  (certificate) =>
    constrains(certificate, ["ip", "email", "other"]) &&
    "has name constraints on names that no certificate of Rampart carries",
  // Trust domains may share a root, so the root's own SPIFFE ID does not restrict the authorities below it.
  (certificate, { depth, trustDomain }) =>
    depth > 0 &&
    spiffeIdsOf(certificate).some((id) => !isOf(trustDomain, id)) &&
    "carries a SPIFFE ID of another trust domain",
  (certificate, { trustDomain }) =>
    spiffeIdsOf(certificate).some((id) =>
      id.startsWith(`${SpiffeId.ofTrustDomain(trustDomain)}/`),
    ) && "carries the SPIFFE ID of a workload (X509-SVID §2 asks for none with a path)",
  (certificate, { isAnchor }) => {
    const lacking = lackingIn(certificate, isAnchor).join(" and ");
    return lacking !== "" && `has ${lacking}; \`openssl -x509_strict\` and Python 3.13 refuse it`;
  },
  (certificate, { isAnchor }) =>
    isAnchor &&
    !namesItselfAsIssuer(certificate) &&
    "is an anchor that is not self-signed, or names another key as its issuer's; OpenSSL refuses it without -partial_chain",
  ({ publicKey }) =>
    publicKey.algorithm === "EC-P521" && `signs with a key on P-521, ${refusedByRing}`,
  ({ toBeSigned }, { isAnchor }) =>
    !isAnchor &&
    Bytes.equal(toBeSigned.signatureAlgorithm, ecdsaWithSha512) &&
    `is signed with ECDSA and SHA-512, ${refusedByRing}`,
];

/** Warns of constraints on a kind of name that ztunnel's verifier (rustls-webpki) never compares, and GnuTLS not if excluded. */
function neverCompared(kind: NameKind, names: string): PathRule {
  return (certificate) => {
    const { excluded = [] } = certificate.claims.nameConstraints ?? {};
    const isExcluded = excluded.some((each) => each.kind === kind);
    const verifiers = isExcluded ? "ztunnel and GnuTLS refuse" : "ztunnel refuses";
    return (
      constrains(certificate, [kind]) &&
      `has name constraints on ${names}; ${verifiers} every certificate below it`
    );
  };
}

/** Whether a certificate constrains names of one of these kinds. */
function constrains({ claims }: CaCertificate, kinds: readonly NameKind[]): boolean {
  const { permitted = [], excluded = [] } = claims.nameConstraints ?? {};
  return [...permitted, ...excluded].some(({ kind }) => kinds.includes(kind));
}

/** OpenSSL compares key identifiers, too, where a certificate has both. */
function namesItselfAsIssuer(certificate: CaCertificate): boolean {
  const { subjectKeyIdentifier: own, issuersKeyIdentifier: issuers } = certificate.claims;
  return CaCertificate.isSelfIssued(certificate) && (!own || !issuers || Bytes.equal(own, issuers));
}

/** Names the extensions that RFC 5280 §4.2.1 requires of a CA and this one lacks. Most verifiers of a mesh accept that. */
function lackingIn({ claims, toBeSigned }: CaCertificate, isAnchor: boolean): string[] {
  if (toBeSigned.version !== 3) return [];
  const isCritical = claims.criticalExtensions.includes(CaExtension.basicConstraints);
  return [
    claims.maySignCertificates === undefined && "no key usage",
    !isCritical && "basic constraints that are not critical",
    claims.subjectKeyIdentifier === undefined && "no subject key identifier",
    !isAnchor && claims.issuersKeyIdentifier === undefined && "no authority key identifier",
  ].filter((each) => each !== false);
}
