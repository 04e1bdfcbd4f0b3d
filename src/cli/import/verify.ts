import type { KeyObject } from "node:crypto";
import { OperatorError } from "../../foundation/operator-error.ts";
import type { AuthorityCertificates } from "../../pki/authority/signing-authority.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { faultsOf, warningsOf } from "./certificate-rules.ts";
import { type Candidates, type CertificationPath, findPath } from "./certification-path.ts";
import { chainWarnings, splitExpired } from "./chain-warnings.ts";
import { all, refuse } from "./faults.ts";
import {
  type ImportedCertificate,
  isAmong,
  isSelfSigned,
  maximumCertificates,
  readCertificates,
  withoutDoubles,
} from "./imported-certificate.ts";
import type { PluggedInMaterial, Source } from "./plugged-in-material.ts";
import { importExtractable, readPrivateKey } from "./private-key.ts";
import { verifiesTrialLeaf } from "./trial-leaf.ts";

/** A CA that was found able to sign for a trust domain: ready for a schedule and a seal. */
export interface ImportedAuthority {
  /** The one root that the authority chains to is the only one in `roots`. */
  readonly certificates: AuthorityCertificates;
  /** Extractable, of the algorithm that `signatureAlgorithmOf` names: seal it, then let it go. */
  readonly privateKey: CryptoKey;
  /** The first end of a validity between the authority and its root: nothing verifies beyond it. */
  readonly notAfter: Date;
  /** Self-signed roots that came along and that the authority does not need, DER, none twice. */
  readonly additionalRoots: readonly Bytes[];
  /** Sentences for the operator about what is legal and may surprise. */
  readonly warnings: readonly string[];
}

/**
 * Verifies what istiod verifies of a plugged-in CA, and what verifiers of its leaves will: that the
 * key is the certificate's, that every link up to a root of the operator holds by name and signature,
 * and that no certificate on the way forbids or spoils what is to be signed. A leaf is signed to see.
 *
 * @throws OperatorError with one line for each fault.
 */
export async function verifyPluggedIn(
  material: PluggedInMaterial,
  trustDomain: TrustDomain,
  now: Date,
): Promise<ImportedAuthority> {
  const { authority, behind, roots, key } = readAll(material);
  const [path] = all(
    () => acceptablePath(authority, { intermediates: behind, roots }, trustDomain, now),
    () => requireOwnKey(authority, key, material.privateKey),
  );
  const certificates = certificatesOf(path);
  const privateKey = await importExtractable(key, authority.publicKey, material.privateKey);
  if (!(await verifiesTrialLeaf(certificates, privateKey, trustDomain, now))) {
    throw new OperatorError(
      `${material.privateKey.name}: the cert does not match the key: what it signs does not verify`,
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
      ...chainWarnings(behind, path, roots),
      ...others.warnings,
      ...revocationWarnings(material),
    ],
  };
}

/** What was read of a material, before anything is compared with anything. */
interface Findings {
  readonly authority: ImportedCertificate;
  /** Every other certificate that is not offered as a root. */
  readonly behind: readonly ImportedCertificate[];
  readonly roots: readonly ImportedCertificate[];
  readonly key: KeyObject;
}

function readAll(material: PluggedInMaterial): Findings {
  const [[authority, ...rest], chain, roots, key] = all(
    () => readCertificates(material.certificate),
    () => material.chain.flatMap(readCertificates),
    () => readRoots(material.roots),
    () => readPrivateKey(material.privateKey),
  );
  if (!authority) throw new Error("a file without a certificate was read");
  return { authority, behind: withoutDoubles([...rest, ...chain]), roots, key };
}

/** Every root, none twice. What is not self-signed is no end of a path: it would be trusted for good. */
function readRoots(sources: readonly Source[]): readonly ImportedCertificate[] {
  const roots = withoutDoubles(sources.flatMap(readCertificates));
  const faults = roots
    .filter((root) => !isSelfSigned(root))
    .map(({ title }) => `${title}: is not self-signed, so it is no root`);
  faults.push(
    ...roots
      .filter(({ claims, toBeSigned }) => !claims.isAuthority && toBeSigned.version !== 1)
      .map(({ title }) => `${title}: is no CA, so it is no root`),
  );
  if (roots.length > maximumCertificates) {
    const names = sources.map(({ name }) => name).join(" and ");
    faults.push(`${names}: hold ${roots.length} roots, and ${maximumCertificates} are the most`);
  }
  refuse(faults);
  return roots;
}

function acceptablePath(
  authority: ImportedCertificate,
  candidates: Candidates,
  trustDomain: TrustDomain,
  now: Date,
): CertificationPath {
  const path = findPath(authority, candidates, now);
  refuse(faultsOf(path, trustDomain, now));
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

/** The longest life of a leaf in Istio (`MAX_WORKLOAD_CERT_TTL`): a successor should have it to take over. */
const comfortableDays = 90;
const dayMilliseconds = 86_400_000;

function lifetimeWarnings(authority: ImportedCertificate, notAfter: Date, now: Date): string[] {
  const days = Math.floor((notAfter.getTime() - now.getTime()) / dayMilliseconds);
  const warnings: string[] = [];
  if (notAfter < authority.toBeSigned.validity.notAfter) {
    warnings.push(`${authority.title}: outlives what is above it, which ends at ${iso(notAfter)}`);
  }
  if (days < comfortableDays) {
    warnings.push(
      `${authority.title}: can be used for ${days} more days only, until ${iso(notAfter)}`,
    );
  }
  return warnings;
}

const iso = (instant: Date): string => instant.toISOString();

function revocationWarnings({ revocationList }: PluggedInMaterial): string[] {
  return revocationList
    ? [`${revocationList.name}: is not imported: Rampart publishes no revocation list`]
    : [];
}
