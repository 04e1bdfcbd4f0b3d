import type { KeyObject, X509Certificate } from "node:crypto";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { mayBeRoot, parseCertificates } from "../../program/files/certificates.ts";
import { IssuanceError } from "../issuance/issuance-error.ts";

/** A workload's identity document with its private key. */
export interface X509Svid {
  readonly spiffeId: SpiffeId;
  readonly privateKey: KeyObject;
  /** The leaf first; no root. Never empty. */
  readonly chain: readonly [X509Certificate, ...X509Certificate[]];
  readonly notAfter: Date;
  /** The agent's own clock when the answer came: the renewal counts from here, as in Istio. */
  readonly obtainedAt: Date;
}

/** The purpose of a certificate: an identity is an X509-SVID, serving is TLS under DNS names. */
export type CertificatePurpose = "identity" | "serving";

/** A certificate with the answer that it came in. */
export interface IssuedSvid {
  readonly svid: X509Svid;
  /** The elements of the CA's answer, PEM, unchanged. */
  readonly elements: readonly string[];
}

/** A CA's answer that has passed every check. */
export interface Issuance extends IssuedSvid {
  /** The roots of the answer, in its order. Never empty. */
  readonly roots: readonly X509Certificate[];
}

/** How far the agent's clock may be behind: a certificate may begin this much later than now. */
const futureToleranceMilliseconds = 3_600_000;

/**
 * Reads the elements of a CreateCertificate answer: the leaf, each intermediate, the roots as one.
 *
 * @param elements At least two, PEM.
 * @throws IssuanceError for an answer whose leaf is for another key, identity or purpose, or not valid at
 *   `now`. Its intermediates must lead to one of its roots.
 */
export function parseIssuance(
  elements: readonly string[],
  requested: { readonly spiffeId: SpiffeId; readonly privateKey: KeyObject },
  now: Date,
  purpose: CertificatePurpose = "identity",
): Issuance {
  if (elements.length < 2) {
    throw new IssuanceError("answer-empty", `the answer has ${elements.length} elements, not two`);
  }
  const [leaf, ...rest] = elements.slice(0, -1).flatMap((pem) => parseCertificates(pem));
  const roots = parseCertificates(elements.at(-1) ?? "");
  if (leaf === undefined || roots.length === 0) {
    throw new IssuanceError("answer-malformed", "the answer has no leaf, or no root");
  }
  // Some CAs repeat the root in the chain (istio#39001). Peers have the root already.
  const intermediates = rest.filter((ca) => !roots.some((root) => root.raw.equals(ca.raw)));
  const svid = {
    ...requested,
    chain: [leaf, ...intermediates] as const,
    notAfter: leaf.validToDate,
    obtainedAt: now,
  };
  requireUsable(svid, now, purpose);
  if (!isIssuedBy(svid.chain, roots, now)) {
    throw new IssuanceError("chain-broken", "the chain does not lead from the leaf to its roots");
  }
  return { svid, roots, elements };
}

/** The extended key usage `serverAuth` (RFC 5280 §4.2.1.12). */
const serverAuth = "1.3.6.1.5.5.7.3.1";

function requireUsable(
  { chain: [leaf], privateKey, spiffeId }: X509Svid,
  now: Date,
  purpose: CertificatePurpose,
): void {
  if (leaf.ca || !leaf.checkPrivateKey(privateKey)) {
    throw new IssuanceError("key-mismatch", "the certificate is for another key");
  }
  if (purpose === "serving") {
    const names = leaf.subjectAltName?.split(", ") ?? [];
    const isServing = names.length > 0 && names.every((name) => name.startsWith("DNS:"));
    if (!isServing || !leaf.keyUsage?.includes(serverAuth)) {
      throw new IssuanceError(
        "identity-mismatch",
        "the certificate is not for a server's DNS names",
      );
    }
  } else if (leaf.subjectAltName !== `URI:${spiffeId}`) {
    throw new IssuanceError("identity-mismatch", `the certificate is not for ${spiffeId}`);
  }
  const isCurrent = leaf.validFromDate < leaf.validToDate && now < leaf.validToDate;
  const earliest = leaf.validFromDate.getTime() - futureToleranceMilliseconds;
  if (!isCurrent || now.getTime() < earliest) {
    const validity = `${leaf.validFromDate.toISOString()} to ${leaf.validToDate.toISOString()}`;
    throw new IssuanceError("validity-unacceptable", `the certificate is valid from ${validity}`);
  }
}

/** Whether each certificate is issued by the next and the last by one of the roots, and no issuer has expired. */
export function isIssuedBy(
  chain: readonly X509Certificate[],
  roots: readonly X509Certificate[],
  now: Date,
): boolean {
  return chain.every((certificate, i) => {
    const next = chain[i + 1];
    const issuers = next ? [next].filter(({ ca }) => ca) : roots.filter(mayBeRoot);
    return issuers.some(
      (issuer) =>
        now < issuer.validToDate &&
        certificate.checkIssued(issuer) &&
        certificate.verify(issuer.publicKey),
    );
  });
}

/** PEM of the chain, leaf first. */
export function chainPem({ chain }: X509Svid): string {
  return chain.map((certificate) => certificate.toString()).join("");
}
