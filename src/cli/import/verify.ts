import type { KeyObject } from "node:crypto";
import { OperatorError } from "../../foundation/operator-error.ts";
import type { AuthorityCertificates } from "../../pki/authority/signing-authority.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { faultsOf, warningsOf } from "./certificate-rules.ts";
import { type Candidates, type CertificationPath, findPath } from "./certification-path.ts";
import { chainWarnings, splitExpired } from "./chain-warnings.ts";
import { collectFaults, requireNoFaults } from "./faults.ts";
import {
  type ImportedCertificate,
  isAmong,
  isAuthoritys,
  isSelfSigned,
  maximumCertificates,
  readCertificates,
  withoutDuplicates,
} from "./imported-certificate.ts";
import type { PluggedInMaterial, Source } from "./plugged-in-material.ts";
import { importExtractable, readPrivateKey } from "./private-key.ts";
import { verifiesTrialLeaf } from "./trial-leaf.ts";

/** A verified CA, which can sign for a trust domain: ready for a schedule and a seal. */
export interface ImportedAuthority {
  /** `roots` holds only the root that the authority chains to. */
  readonly certificates: AuthorityCertificates;
  /** Extractable, for the algorithm of `signatureAlgorithmOf`: seal it, then drop it. */
  readonly privateKey: CryptoKey;
  /** The earliest `notAfter` from the authority to its root: nothing verifies after it. */
  readonly notAfter: Date;
  /** The other self-signed roots of the material, DER, without duplicates. */
  readonly additionalRoots: readonly Bytes[];
  /** Sentences for the operator about properties that are legal and surprising. */
  readonly warnings: readonly string[];
}

/**
 * Verifies a plugged-in CA as istiod does, and as the verifiers of its leaves will. The key must
 * match the certificate. Every link up to one of the operator's roots must hold by name and signature. No
 * certificate on the path may forbid the leaves. The last check signs a trial leaf.
 *
 * @throws OperatorError with one line for each fault.
 */
export async function verifyPluggedIn(
  material: PluggedInMaterial,
  trustDomain: TrustDomain,
  now: Date,
): Promise<ImportedAuthority> {
  const { authority, others: candidates, roots, key } = readAll(material);
  const [path] = collectFaults(
    () => acceptablePath(authority, { intermediates: candidates, roots }, trustDomain, now),
    () => requireOwnKey(authority, key, material.privateKey),
  );
  const certificates = certificatesOf(path);
  const privateKey = await importExtractable(key, authority.publicKey, material.privateKey);
  if (!(await verifiesTrialLeaf(certificates, privateKey, trustDomain, now))) {
    throw new OperatorError(
      `${material.privateKey.name}: the cert does not match the key: a trial leaf does not verify`,
    );
  }
  const notAfter = firstEnd(path);
  const others = splitExpired(
    roots.filter((root) => !isAmong(root, path)),
    now,
  );
  return {
    certificates,
    privateKey,
    notAfter,
    additionalRoots: others.current.map(({ der }) => der),
    warnings: [
      ...warningsOf(path, trustDomain),
      ...lifetimeWarnings(authority, notAfter, now),
      ...chainWarnings(candidates, path, roots),
      ...others.warnings,
      ...revocationWarnings(material),
    ],
  };
}

/** The parsed parts of a material, not compared with each other yet. */
interface ParsedMaterial {
  readonly authority: ImportedCertificate;
  /** Every other certificate that is not offered as a root. */
  readonly others: readonly ImportedCertificate[];
  readonly roots: readonly ImportedCertificate[];
  readonly key: KeyObject;
}

function readAll(material: PluggedInMaterial): ParsedMaterial {
  const [[authority, ...rest], chain, roots, key] = collectFaults(
    () => readCertificates(material.certificate),
    () => material.chain.flatMap(readCertificates),
    () => readRoots(material.roots),
    () => readPrivateKey(material.privateKey),
  );
  if (!authority) throw new Error("a file without a certificate was read");
  return { authority, others: withoutDuplicates([...rest, ...chain]), roots, key };
}

/** Every root, without duplicates. Each must be self-signed, or it could not end a path. */
function readRoots(sources: readonly Source[]): readonly ImportedCertificate[] {
  const roots = withoutDuplicates(sources.flatMap(readCertificates));
  const faults = roots
    .filter((root) => !isSelfSigned(root))
    .map(({ title }) => `${title}: is not self-signed, so it is no root`);
  faults.push(
    ...roots
      .filter((root) => !isAuthoritys(root))
      .map(({ title }) => `${title}: is no CA, so it is no root`),
  );
  if (roots.length > maximumCertificates) {
    const names = sources.map(({ name }) => name).join(" and ");
    faults.push(`${names}: hold ${roots.length} roots; the limit is ${maximumCertificates}`);
  }
  requireNoFaults(faults);
  return roots;
}

function acceptablePath(
  authority: ImportedCertificate,
  candidates: Candidates,
  trustDomain: TrustDomain,
  now: Date,
): CertificationPath {
  const path = findPath(authority, candidates, now);
  requireNoFaults(faultsOf(path, trustDomain, now));
  return path;
}

function requireOwnKey(authority: ImportedCertificate, key: KeyObject, source: Source): void {
  if (authority.verifier.checkPrivateKey(key)) return;
  throw new OperatorError(
    `${source.name}: the cert does not match the key: see ${authority.title}`,
  );
}

function certificatesOf(path: CertificationPath): AuthorityCertificates {
  const [authority, ...above] = path.map(({ der }) => der);
  const root = path.at(-1);
  if (!authority || !root) throw new Error("a path has an end");
  const intermediates = above.length === 0 ? [] : [authority, ...above.slice(0, -1)];
  return { certificate: authority, intermediates, roots: [root.der] };
}

const firstEnd = (path: CertificationPath): Date =>
  new Date(Math.min(...path.map(({ toBeSigned }) => toBeSigned.validity.notAfter.getTime())));

/** Istio's longest life of a leaf (`MAX_WORKLOAD_CERT_TTL`): a successor needs that long to take over. */
const warningDays = 90;
const dayMilliseconds = 86_400_000;

function lifetimeWarnings(authority: ImportedCertificate, notAfter: Date, now: Date): string[] {
  const days = Math.floor((notAfter.getTime() - now.getTime()) / dayMilliseconds);
  const warnings: string[] = [];
  if (notAfter < authority.toBeSigned.validity.notAfter) {
    warnings.push(
      `${authority.title}: outlives a certificate above it, which expires at ${iso(notAfter)}`,
    );
  }
  if (days < warningDays) {
    warnings.push(
      `${authority.title}: can be used for ${days} more days only, until ${iso(notAfter)}`,
    );
  }
  return warnings;
}

const iso = (instant: Date): string => instant.toISOString();

function revocationWarnings({ revocationList }: PluggedInMaterial): string[] {
  return revocationList
    ? [`${revocationList.name}: is not imported, because Rampart publishes no revocation list`]
    : [];
}
