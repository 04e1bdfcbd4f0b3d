import { OperatorError } from "../../foundation/operator-error.ts";
import type { AuthorityCertificates } from "../authority/signing-authority.ts";
import type { Bytes } from "../encoding/bytes.ts";
import type { TrustDomain } from "../spiffe-id.ts";
import { type CaCertificate, isAmong, isIssuedBy, isSelfIssued } from "./ca-certificate.ts";
import { type CertificationPath, findPath } from "./certification-path.ts";
import { chainWarnings, lifetimeWarnings, splitExpired } from "./chain-warnings.ts";
import { faultsOf } from "./path-rules.ts";
import { refusedAlgorithmOf } from "./path-signature.ts";
import { warningsOf } from "./path-warnings.ts";

/** The most certificates of a chain, and the most roots: the limit of a sealed record. */
export const maximumCertificates = 8;

/** An authority that somebody else certified, with all certificates that came with it. */
export interface OfferedAuthority {
  readonly authority: CaCertificate;
  /** Certificates between the authority and its root, and others, in any order; not trusted. */
  readonly others: readonly CaCertificate[];
  /** The roots that its provider trusts. Empty only where the authority may be its own root. */
  readonly anchors: readonly CaCertificate[];
}

/** An authority whose leaves the verifiers of a mesh will accept. */
export interface VerifiedAuthority {
  /** `roots` holds only the root that the authority chains to. */
  readonly certificates: AuthorityCertificates;
  readonly path: CertificationPath;
  /** The earliest `notAfter` from the authority to its root: nothing verifies after it. */
  readonly notAfter: Date;
  /** The other anchors that have not expired, DER, without duplicates. */
  readonly additionalRoots: readonly Bytes[];
  /** Sentences for the operator about properties that are legal and surprising. */
  readonly warnings: readonly string[];
}

/**
 * Verifies an authority as istiod does, and as the verifiers of its leaves will. Every link up to an
 * anchor must hold by name and signature, and no certificate on the path may forbid the leaves.
 *
 * @throws OperatorError with one line for each fault.
 */
export async function verifyAuthority(
  { authority, others, anchors }: OfferedAuthority,
  trustDomain: TrustDomain,
  now: Date,
): Promise<VerifiedAuthority> {
  await requireOwnSignatures([authority, ...anchors]);
  const path = await findPath(authority, { intermediates: others, anchors }, now);
  const faults = faultsOf(path, trustDomain, now);
  if (faults.length > 0) throw new OperatorError([...new Set(faults)].join("\n"));
  const notAfter = new Date(
    Math.min(...path.map(({ toBeSigned }) => toBeSigned.validity.notAfter.getTime())),
  );
  const spare = splitExpired(
    anchors.filter((anchor) => !isAmong(anchor, path)),
    now,
  );
  return {
    certificates: certificatesOf(path),
    path,
    notAfter,
    additionalRoots: spare.current.map(({ der }) => der),
    warnings: [
      ...warningsOf(path, trustDomain),
      ...lifetimeWarnings(path, notAfter, now),
      ...chainWarnings(others, path, anchors),
      ...spare.warnings,
    ],
  };
}

/**
 * A self-signed certificate must have its own signature, although no verifier looks at an anchor's
 * (RFC 5280 §6.1.1 (d)): another one is a damaged file. Old roots signed with SHA-1 pass.
 */
async function requireOwnSignatures(certificates: readonly CaCertificate[]): Promise<void> {
  const faults: string[] = [];
  for (const certificate of certificates) {
    if (!isSelfIssued(certificate) || refusedAlgorithmOf(certificate)) continue;
    if (await isIssuedBy(certificate, certificate)) continue;
    faults.push(`${certificate.title}: names itself as its issuer, but did not sign itself`);
  }
  if (faults.length > 0) throw new OperatorError([...new Set(faults)].join("\n"));
}

function certificatesOf(path: CertificationPath): AuthorityCertificates {
  const [authority, ...above] = path.map(({ der }) => der);
  const anchor = path.at(-1);
  if (!authority || !anchor) throw new Error("a path has an end");
  const intermediates = above.length === 0 ? [] : [authority, ...above.slice(0, -1)];
  return { certificate: authority, intermediates, roots: [anchor.der] };
}
