import { bytesEqual, fromHexLiteral } from "../encoding/bytes.ts";
import { type TrustDomain, trustDomainSpiffeId } from "../spiffe-id.ts";
import { type CaCertificate, isSelfIssued } from "./ca-certificate.ts";
import { CaExtension } from "./ca-claims.ts";
import type { CertificationPath } from "./certification-path.ts";
import type { NameKind } from "./general-names.ts";
import { isOf, linesOf, type PathRule, spiffeIdsOf } from "./path-rule.ts";

const rareKinds: readonly NameKind[] = ["ip", "email", "other"];

/** ecdsa-with-SHA512 (RFC 5758 §3.2). */
const ecdsaWithSha512 = fromHexLiteral("300a06082a8648ce3d040304");

/** Of the ciphers that ztunnel may be built with, ring verifies the fewest signatures. */
const refusedByRing = "which a ztunnel built with ring refuses";

const rules: readonly PathRule[] = [
  neverCompared("uri", "URIs"),
  neverCompared("directory", "directory names"),
  (certificate) =>
    constrains(certificate, ["dns"]) &&
    "has name constraints on DNS names, which bind the certificates of servers",
  (certificate) =>
    constrains(certificate, rareKinds) &&
    "has name constraints on names that no certificate of Rampart carries",
  // Trust domains may share a root, whose own SPIFFE ID does not bind the authorities below it.
  (certificate, { depth, trustDomain }) =>
    depth > 0 &&
    spiffeIdsOf(certificate).some((id) => !isOf(trustDomain, id)) &&
    "carries a SPIFFE ID of another trust domain",
  (certificate, { trustDomain }) =>
    spiffeIdsOf(certificate).some((id) => id.startsWith(`${trustDomainSpiffeId(trustDomain)}/`)) &&
    "carries the SPIFFE ID of a workload (X509-SVID §2 asks for none with a path)",
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
    bytesEqual(toBeSigned.signatureAlgorithm, ecdsaWithSha512) &&
    `is signed with ECDSA and SHA-512, ${refusedByRing}`,
];

/** Warnings about properties of a path that are legal and surprising. */
export const warningsOf = (path: CertificationPath, trustDomain: TrustDomain): string[] =>
  linesOf(path, rules, { trustDomain });

/** Constraints on names that ztunnel's verifier (rustls-webpki) never compares, and GnuTLS not with excluded ones. */
function neverCompared(kind: NameKind, names: string): PathRule {
  return (certificate) => {
    const isExcluded = certificate.claims.nameConstraints?.excluded.some(
      (each) => each.kind === kind,
    );
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
