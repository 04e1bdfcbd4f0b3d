import { OperatorError } from "../../foundation/errors.ts";
import { parseForeignAuthority } from "../authority/foreign-authority.ts";
import { Bytes } from "../encoding/bytes.ts";
import type { Certificate } from "../x509/certificate.ts";
import { isSignedByKey, refusedAlgorithmOf } from "../x509/certificate-signature.ts";
import { SubjectPublicKey } from "../x509/subject-public-key.ts";
import { type CaClaims, readCaClaims } from "./internal/ca-claims.ts";

/** From the authority through its intermediates to the anchor. An authority that is an anchor is its own path. */
export type CertificationPath = readonly [CaCertificate, ...CaCertificate[]];

interface Candidates {
  /** Candidates for the path in any order. They are not trusted. */
  readonly intermediates: readonly CaCertificate[];
  /** The certificates that the operator trusts. An anchor need not be self-signed (RFC 5280 §6.1.1 (d)). */
  readonly anchors: readonly CaCertificate[];
}

/**
 * The shortest path from an authority to a self-signed anchor, else to another anchor. Each link is checked
 * by name and signature (RFC 5280 §6.1). Among paths of one length, certificates that are valid at `now` come first;
 * an expired one does not break a path. The path is the authority alone if it is an anchor, or if it is
 * self-issued and has the name and key of an anchor, or there are no anchors.
 *
 * @throws OperatorError that names the certificate at which the path breaks.
 */
export async function findPath(
  authority: CaCertificate,
  { intermediates, anchors }: Candidates,
  now: Date,
): Promise<CertificationPath> {
  if (isItsOwnAnchor(authority, anchors)) return [authority];
  const roots = anchors.filter(CaCertificate.isSelfIssued);
  const others = anchors.filter((anchor) => !CaCertificate.isSelfIssued(anchor));
  const all = [...intermediates, ...others];
  const toRoot = await search(authority, { intermediates: all, anchors: roots }, now);
  if ("path" in toRoot) return toRoot.path;
  const toAnchor = await search(authority, { intermediates: all, anchors: others }, now);
  if ("path" in toAnchor) return toAnchor.path;
  throw new OperatorError(broken(toRoot.last, [...all, ...roots]));
}

/**
 * Whether an authority is itself an anchor, or has the key and name of one. istiod's rotator leaves the former
 * certificate in `root-cert.pem`, with the same key and name and another validity.
 */
function isItsOwnAnchor(authority: CaCertificate, anchors: readonly CaCertificate[]): boolean {
  if (isAmong(authority, anchors)) return true;
  if (!CaCertificate.isSelfIssued(authority)) return false;
  const { toBeSigned, publicKey } = authority;
  const isSame = (anchor: CaCertificate): boolean =>
    Bytes.equal(anchor.toBeSigned.subject, toBeSigned.subject) &&
    Bytes.equal(anchor.publicKey.spki, publicKey.spki);
  return anchors.length === 0 || anchors.some(isSame);
}

type Found = { readonly path: CertificationPath } | { readonly last: CaCertificate };

async function search(
  authority: CaCertificate,
  { intermediates, anchors }: Candidates,
  now: Date,
): Promise<Found> {
  const validFirst = (a: CaCertificate, b: CaCertificate) =>
    Number(isValidAt(b, now)) - Number(isValidAt(a, now));
  const above = intermediates.toSorted(validFirst);
  const trusted = anchors.toSorted(validFirst);
  const reached = new Set([authority]);
  const paths: [CaCertificate, ...CaCertificate[]][] = [[authority]];
  let last = authority;
  // Breadth first: the loop appends to the list that it walks, and visits each certificate once.
  for (const path of paths) {
    last = path.at(-1) ?? authority;
    const [anchor] = await issuersOf(last, trusted);
    if (anchor) return { path: [...path, anchor] };
    for (const next of await issuersOf(last, above)) {
      if (reached.has(next)) continue;
      reached.add(next);
      paths.push([...path, next]);
    }
  }
  return { last };
}

async function issuersOf(
  child: CaCertificate,
  candidates: readonly CaCertificate[],
): Promise<readonly CaCertificate[]> {
  const isIssuer = await Promise.all(
    candidates.map((candidate) => CaCertificate.isIssuedBy(child, candidate)),
  );
  return candidates.filter((_, i) => isIssuer[i]);
}

function broken(last: CaCertificate, candidates: readonly CaCertificate[]): string {
  const algorithm = refusedAlgorithmOf(last);
  if (algorithm) return `${last.title}: is signed with ${algorithm}, which verifiers refuse`;
  const reason = "cannot verify the cert with the provided root chain and cert pool";
  const namesake = candidates.find((candidate) => hasIssuerName(last, candidate));
  return namesake
    ? `${last.title}: ${reason}: ${namesake.title} has the name of its issuer, but did not sign it`
    : `${last.title}: ${reason}: no certificate has the name of its issuer`;
}

/** A CA's certificate, with every extension parsed that path validation depends on. */
export interface CaCertificate extends Certificate {
  /**
   * What errors call the certificate, such as `cacerts/cert-chain.pem, certificate 2 (CN=Intermediate CA, O=Istio)`.
   */
  readonly title: string;
  readonly publicKey: SubjectPublicKey;
  readonly claims: CaClaims;
}

/** Parses CA certificates, and compares and links them. */
export const CaCertificate = {
  /**
   * Reads a certificate that somebody else made. It verifies neither that the certificate is a CA's nor its signature.
   *
   * @throws DerError for anything else; CaError `subject-key-unacceptable` for a key that no authority may have.
   */
  parse(der: Bytes, title: string): CaCertificate {
    const certificate = parseForeignAuthority(der);
    const publicKey = SubjectPublicKey.parse(certificate.toBeSigned.spki);
    return { ...certificate, title, publicKey, claims: readCaClaims(certificate.signedBytes) };
  },

  /** Whether name and signature match the issuer. Neither validity nor the right to sign is verified. */
  async isIssuedBy(child: Certificate, issuer: CaCertificate): Promise<boolean> {
    return hasIssuerName(child, issuer) && isSignedByKey(child, issuer.publicKey);
  },

  /** Whether it names itself as its issuer. Its signature is not verified. */
  isSelfIssued: (certificate: Certificate): boolean => hasIssuerName(certificate, certificate),
};

/** Whether the child names this issuer: octet by octet, as in Go and webpki. Another encoding of a name is another name. */
function hasIssuerName(child: Certificate, issuer: Certificate): boolean {
  return Bytes.equal(child.toBeSigned.issuer, issuer.toBeSigned.subject);
}

/** Whether one of the other certificates has the same DER. */
export const isAmong = (certificate: Certificate, others: readonly Certificate[]): boolean =>
  others.some(({ der }) => Bytes.equal(der, certificate.der));

/** Whether `now` is within the validity of a certificate: from notBefore, and before notAfter. */
function isValidAt({ toBeSigned: { validity } }: Certificate, now: Date): boolean {
  return validity.notBefore <= now && now < validity.notAfter;
}
