import { bytesEqual, fromHexLiteral } from "../encoding/bytes.ts";
import { type TrustDomain, trustDomainSpiffeId } from "../spiffe-id.ts";
import { type CaCertificate, isSelfIssued } from "./ca-certificate.ts";
import { CaExtension } from "./ca-claims.ts";
import type { CertificationPath } from "./certification-path.ts";
import type { NameKind } from "./general-names.ts";
import type { NameConstraints } from "./name-constraints.ts";
import { isOf, spiffeIdsOf } from "./path-rules.ts";

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
    warnings.push(...signatureWarnings(certificate, isAnchor));
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

const rareKinds: readonly NameKind[] = ["ip", "email", "other"];

/** Names of every certificate that ztunnel's verifier (rustls-webpki) never compares, and GnuTLS not with excluded ones. */
const notCompared = [
  ["uri", "URIs"],
  ["directory", "directory names"],
] as const;

function constraintWarnings({ permitted, excluded }: NameConstraints): string[] {
  const kinds = new Set([...permitted, ...excluded].map(({ kind }) => kind));
  const warnings: string[] = [];
  for (const [kind, names] of notCompared) {
    if (!kinds.has(kind)) continue;
    const isExcluded = excluded.some((each) => each.kind === kind);
    const verifiers = isExcluded ? "ztunnel and GnuTLS refuse" : "ztunnel refuses";
    warnings.push(`has name constraints on ${names}; ${verifiers} every certificate below it`);
  }
  if (kinds.has("dns")) {
    warnings.push("has name constraints on DNS names, which bind the certificates of servers");
  }
  if (rareKinds.some((kind) => kinds.has(kind))) {
    warnings.push("has name constraints on names that no certificate of Rampart carries");
  }
  return warnings;
}

/** ecdsa-with-SHA512 (RFC 5758 §3.2). */
const ecdsaWithSha512 = fromHexLiteral("300a06082a8648ce3d040304");

/** Of the ciphers that ztunnel may be built with, ring verifies the fewest signatures. */
function signatureWarnings({ publicKey, toBeSigned }: CaCertificate, isAnchor: boolean): string[] {
  const refused = "which a ztunnel built with ring refuses";
  const isSha512 = bytesEqual(toBeSigned.signatureAlgorithm, ecdsaWithSha512);
  return [
    publicKey.algorithm === "EC-P521" && `signs with a key on P-521, ${refused}`,
    !isAnchor && isSha512 && `is signed with ECDSA and SHA-512, ${refused}`,
  ].filter((each) => each !== false);
}
