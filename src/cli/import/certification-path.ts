import { OperatorError } from "../../foundation/operator-error.ts";
import {
  hasIssuerName,
  type ImportedCertificate,
  isIssuedBy,
  isSelfSigned,
  isValidAt,
} from "./imported-certificate.ts";

/** From the authority through its intermediates to the root. An authority that is a root is its own path. */
export type CertificationPath = readonly [ImportedCertificate, ...ImportedCertificate[]];

/** The certificates that a path may be built from. */
export interface Candidates {
  /** In any order; not trusted. */
  readonly intermediates: readonly ImportedCertificate[];
  /** Self-signed; the operator trusts them. */
  readonly roots: readonly ImportedCertificate[];
}

/**
 * The shortest path from an authority to a root, each link checked by name and signature (RFC 5280
 * §6.1). Among paths of one length, certificates that are valid at `now` come first.
 *
 * @throws OperatorError that names the certificate at which the path breaks.
 */
export function findPath(
  authority: ImportedCertificate,
  { intermediates, roots }: Candidates,
  now: Date,
): CertificationPath {
  if (isSelfSigned(authority) && isAcceptable(authority, roots)) return [authority];
  const validFirst = (a: ImportedCertificate, b: ImportedCertificate) =>
    Number(isValidAt(b, now)) - Number(isValidAt(a, now));
  const above = intermediates.toSorted(validFirst);
  const anchors = roots.toSorted(validFirst);
  const reached = new Set([authority]);
  const paths: [ImportedCertificate, ...ImportedCertificate[]][] = [[authority]];
  let last = authority;
  // Breadth first: the loop appends to the list that it walks, and visits each certificate once.
  for (const path of paths) {
    last = path.at(-1) ?? authority;
    const child = last;
    const root = anchors.find((anchor) => isIssuedBy(child, anchor));
    if (root) return [...path, root];
    for (const next of above.filter((one) => !reached.has(one) && isIssuedBy(child, one))) {
      reached.add(next);
      paths.push([...path, next]);
    }
  }
  throw new OperatorError(broken(last, [...above, ...anchors]));
}

/**
 * Whether a self-signed authority is acceptable beside these roots. istiod's rotator leaves the former
 * certificate in `root-cert.pem`: the same key and name, with another validity.
 */
function isAcceptable(
  authority: ImportedCertificate,
  roots: readonly ImportedCertificate[],
): boolean {
  return roots.length === 0 || roots.some((root) => isIssuedBy(authority, root));
}

function broken(last: ImportedCertificate, candidates: readonly ImportedCertificate[]): string {
  const reason = "cannot verify the cert with the provided root chain and cert pool";
  const namesake = candidates.find((candidate) => hasIssuerName(last, candidate));
  return namesake
    ? `${last.title}: ${reason}: ${namesake.title} has the name of its issuer, but did not sign it`
    : `${last.title}: ${reason}: no certificate has the name of its issuer`;
}
