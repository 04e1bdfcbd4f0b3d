import { type KeyObject, X509Certificate } from "node:crypto";
import { OperatorError } from "../../../foundation/errors.ts";
import type { OperationLog } from "../../../foundation/events.ts";
import {
  type AuthorityCertificates,
  SigningAuthority,
} from "../../../pki/authority/signing-authority.ts";
import { Bytes } from "../../../pki/encoding/bytes.ts";
import { VerifiedAuthority } from "../../../pki/path/verified-authority.ts";
import { SignatureAlgorithm } from "../../../pki/signature-algorithm.ts";
import { SpiffeId, type TrustDomain } from "../../../pki/spiffe-id.ts";
import { webSigningKey } from "../../../pki/web-crypto.ts";
import { Leaf } from "../../../pki/x509/leaf/certificate-signer.ts";
import { IdentityProof } from "../../../pki/x509/leaf/identity-proof.ts";
import { Validity, wholeSeconds } from "../../../pki/x509/validity.ts";
import { mayBeRoot } from "../../../program/files/pem-file.ts";
import type { PluggedInMaterial, Source } from "./ca-entries.ts";
import {
  type ImportedCertificate,
  importExtractable,
  readCertificates,
  readCrls,
  readPrivateKey,
  requireNotRevoked,
} from "./pem-files.ts";

/** A verified CA with its key. It has no schedule yet, and is not sealed. */
export interface ImportedAuthority extends VerifiedAuthority {
  /** Extractable, so that it can be sealed, and must be dropped afterwards. */
  readonly privateKey: CryptoKey;
}

/** The certificates of an authority in an operator's files, parsed but not verified. */
export interface ImportedCertificates {
  readonly authority: ImportedCertificate;
  /** Every other certificate that is not offered as a root. */
  readonly others: readonly ImportedCertificate[];
  readonly anchors: readonly ImportedCertificate[];
}

/**
 * Verifies a plugged-in CA: its path by {@link verifyImported}; by a trial leaf, that the key is the certificate's; and
 * that no CRL revokes a certificate of the path.
 * @throws OperatorError with one line for each fault.
 */
export async function verifyPluggedIn(
  material: PluggedInMaterial,
  trustDomain: TrustDomain,
  now: Date,
): Promise<ImportedAuthority> {
  const { key, crls, ...certificates } = readAll(material);
  const [verified] = collectFaults(
    await settled(verifyImported(certificates, trustDomain, now)),
    () => requireOwnKey(certificates.authority, key, material.privateKey),
  );
  if (material.crl) requireNotRevoked(verified.path, crls, material.crl);
  const privateKey = await importExtractable(
    key,
    certificates.authority.publicKey,
    material.privateKey,
  );
  if (!(await verifiesTrialLeaf(verified.certificates, privateKey, trustDomain, now))) {
    throw new OperatorError(
      `${material.privateKey.name}: the cert does not match the key: a trial leaf does not verify`,
    );
  }
  const warnings = [...verified.warnings, ...revocationWarnings(material)];
  return { ...verified, warnings, privateKey };
}

/**
 * Verifies the certificates of an authority by all rules of a path, and then by OpenSSL, which gives no reason.
 * @throws OperatorError with one line for each fault.
 */
export async function verifyImported(
  certificates: ImportedCertificates,
  trustDomain: TrustDomain,
  now: Date,
): Promise<VerifiedAuthority> {
  const verified = await VerifiedAuthority.verify(certificates, trustDomain, now);
  const { authority, others, anchors } = certificates;
  const verifiers = new Map<Uint8Array, X509Certificate>(
    [authority, ...others, ...anchors].map(({ der, verifier }) => [der, verifier]),
  );
  requireNoFaults(misfitsIn(verified, verifiers));
  return verified;
}

/** Logs the warnings of an imported authority: what is legal, but surprising. */
export function logImportWarnings({ warnings }: VerifiedAuthority, log: OperationLog): void {
  for (const detail of warnings) {
    log.operation({ event: "import-warning", level: "warning", detail });
  }
}

function misfitsIn(
  { path }: VerifiedAuthority,
  verifiers: ReadonlyMap<Uint8Array, X509Certificate>,
): string[] {
  return path.slice(0, -1).flatMap((certificate, depth) => {
    const issuer = path[depth + 1] ?? certificate;
    const issuersVerifier = verifiers.get(issuer.der);
    if (issuersVerifier && verifiers.get(certificate.der)?.checkIssued(issuersVerifier)) return [];
    const identifier = "its authority key identifier is not the issuer's";
    return [
      `${certificate.title}: ${identifier}, or OpenSSL refuses an extension: ${issuer.title}`,
    ];
  });
}

/** Parses the files of a CA. They are not compared with each other yet. */
function readAll({ certificate, chain, roots, privateKey, crl }: PluggedInMaterial) {
  const [certificates, key, crls] = collectFaults(
    () => readImported(certificate, chain, roots),
    () => readPrivateKey(privateKey),
    () => (crl ? readCrls(crl) : []),
  );
  return { ...certificates, key, crls };
}

/** Reads the certificates of files. @throws OperatorError with one line for each fault. */
function readImported(
  certificate: Source,
  chain: readonly Source[],
  roots: readonly Source[],
): ImportedCertificates {
  const [[authority, ...rest], others, anchors] = collectFaults(
    () => readCertificates(certificate),
    () => chain.flatMap(readCertificates),
    () => readImportedRoots(roots),
  );
  if (!authority) throw new Error("a file without a certificate was read");
  return { authority, others: withoutDuplicates([...rest, ...others]), anchors };
}

/**
 * Reads the roots in files, without duplicates.
 * @throws OperatorError for one that is no CA, and for more than eight.
 */
export function readImportedRoots(sources: readonly Source[]): readonly ImportedCertificate[] {
  const anchors = withoutDuplicates(sources.flatMap(readCertificates));
  const faults = anchors
    .filter(({ verifier }) => !mayBeRoot(verifier))
    .map(({ title }) => `${title}: is no CA, so it is no root`);
  if (anchors.length > VerifiedAuthority.maximumCertificates) {
    const names = sources.map(({ name }) => name).join(" and ");
    faults.push(
      `${names}: hold ${anchors.length} roots; the limit is ${VerifiedAuthority.maximumCertificates}`,
    );
  }
  requireNoFaults(faults);
  return anchors;
}

function requireOwnKey(authority: ImportedCertificate, key: KeyObject, source: Source): void {
  if (authority.verifier.checkPrivateKey(key)) return;
  throw new OperatorError(
    `${source.name}: the cert does not match the key: see ${authority.title}`,
  );
}

function revocationWarnings({ crl }: PluggedInMaterial): string[] {
  return crl ? [`${crl.name}: is not imported: Rampart signs CRLs of its own (CRL = "on")`] : [];
}

/** Requires that there are no faults. @throws OperatorError with one line for each. */
function requireNoFaults(faults: readonly string[]): void {
  if (faults.length > 0) throw new OperatorError([...new Set(faults)].join("\n"));
}

/**
 * Runs all functions even if one fails, so that the operator learns of all faults at once.
 * @throws OperatorError with the lines of every failure.
 */
function collectFaults<Results extends readonly unknown[]>(
  ...works: { readonly [I in keyof Results]: () => Results[I] }
): Results {
  const faults: string[] = [];
  const results = works.map((work) => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      faults.push(error.message);
    }
    return undefined;
  });
  requireNoFaults(faults);
  return results as unknown as Results;
}

/** Waits for work, for {@link collectFaults}. @returns A function that returns the result or throws the error. */
const settled = <T>(work: Promise<T>): Promise<() => T> =>
  work.then(
    (result) => () => result,
    (error: unknown) => () => {
      throw error;
    },
  );

/**
 * Whether a trial leaf, signed with this key, verifies under this authority. A key file may name a public
 * key that is not its own, so only a signature proves the pair.
 *
 * @throws Error for a leaf that the linter refuses: then a certificate rule is missing.
 */
export async function verifiesTrialLeaf(
  certificates: AuthorityCertificates,
  privateKey: CryptoKey,
  trustDomain: TrustDomain,
  now: Date,
): Promise<boolean> {
  try {
    const { der } = await issueTrialLeaf(certificates, privateKey, trustDomain, now);
    const { publicKey } = new X509Certificate(certificates.certificate);
    return new X509Certificate(der).verify(publicKey);
  } catch (error) {
    // OpenSSL refuses to sign with an RSA key whose numbers contradict each other.
    if (error instanceof DOMException && error.name === "OperationError") return false;
    throw error;
  }
}

async function issueTrialLeaf(
  certificates: AuthorityCertificates,
  privateKey: CryptoKey,
  trustDomain: TrustDomain,
  now: Date,
): Promise<Leaf> {
  const schedule = { publishedFrom: now, signsFrom: now, signsUntil: now, retiresAt: now };
  const authority = await SigningAuthority.create(certificates, schedule);
  const { validity } = authority.certificate.toBeSigned;
  const oneSecond = { defaultSeconds: 1, maximumSeconds: 1 };
  const signingKey = webSigningKey(privateKey, SignatureAlgorithm.of(authority.publicKey));
  return Leaf.issue(SigningAuthority.open(authority, signingKey), {
    spiffeId: SpiffeId.ofWorkload(trustDomain, { namespace: "rampart", name: "import" }),
    publicKey: authority.publicKey,
    validity: Validity.ofLeaf(1n, oneSecond, validity, now),
    proof: {
      provedAt: wholeSeconds(now),
      issuer: IdentityProof.issuerDigest(""),
      isImpersonated: false,
    },
  });
}

function withoutDuplicates(
  certificates: readonly ImportedCertificate[],
): readonly ImportedCertificate[] {
  return certificates.filter(
    ({ der }, i) => certificates.findIndex((other) => Bytes.equal(other.der, der)) === i,
  );
}
