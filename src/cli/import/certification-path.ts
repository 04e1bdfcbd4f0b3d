import { OperatorError } from "../../foundation/operator-error.ts";
import {
  hasIssuerName,
  type ImportedCertificate,
  isIssuedBy,
  isSelfSigned,
  isValidAt,
} from "./imported-certificate.ts";

/** From the authority, through what lies between, to the root; an authority that is a root is both. */
export type CertificationPath = readonly [ImportedCertificate, ...ImportedCertificate[]];

/** Where a path may lead. */
export interface Candidates {
  /** Proposals in any order. */
  readonly intermediates: readonly ImportedCertificate[];
  /** Self-signed and trusted by the operator. */
  readonly roots: readonly ImportedCertificate[];
}

/**
 * The shortest path from an authority to a root, every link held by name and signature (RFC 5280
 * §6.1). Among several of one length, certificates that are valid at `now` come first.
 *
 * @throws OperatorError that says at which certificate the path breaks.
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
  // The list grows while it is walked: breadth first, each certificate once.
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
 * Whether a root that the files call the authority fits the roots beside it. istiod's rotator leaves
 * the root of before in `root-cert.pem`: the same key and name, and another validity.
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
