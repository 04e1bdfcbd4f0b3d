import type { Authorities } from "../../ca/authorities.ts";
import type { AuthorityView } from "../../ca/authority-view.ts";
import type { IssuanceLog } from "../../ca/issuance/issuance-log.ts";
import { CaError } from "../../foundation/errors.ts";
import type { OpenAuthority } from "../../pki/authority/signing-authority.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { Leaf } from "../../pki/x509/leaf/certificate-signer.ts";
import { IdentityProof } from "../../pki/x509/leaf/identity-proof.ts";
import { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { addSeconds, type LeafLifetimes, Validity } from "../../pki/x509/validity.ts";
import { renewalOf, type ServingCertificate, type ServingCertificateSource } from "../tls.ts";

/** The names of a serving certificate. With a SPIFFE ID it is an X509-SVID, by which others federate (https_spiffe). */
export interface ServingNames {
  readonly dnsNames: readonly string[];
  readonly spiffeId?: SpiffeId | undefined;
}

/** The names of a serving certificate, and the authorities that sign it. */
interface OwnCertificate extends ServingNames {
  readonly authorities: Authorities;
  readonly leafLifetimes: LeafLifetimes;
  /** Absent if nothing is logged. */
  readonly issuanceLog?: IssuanceLog | undefined;
}

/** How long callers may take to learn a new root: the refresh interval of those without long polling. */
const learningSeconds = 300;

/**
 * The source of a serving certificate from the signing authority, with a fresh key. It is renewed before half of its
 * life is over, and when another authority signs: at once if the bundle has lost the old root, else after five minutes.
 * After a taint the new root signs at once, and callers can learn of it only over a connection that they still accept.
 */
export function ownCertificate(own: OwnCertificate): ServingCertificateSource {
  let current: ServingCertificate | undefined;
  let issuerId = "";
  let [validFrom, renewAt] = [new Date(0), new Date(0)];
  let followedAt: Date | undefined;
  return async (now) => {
    const view = await own.authorities.at(now);
    const { issuer, chainPem, reasons } = view;
    if (!issuer) {
      const why = reasons.join("; ");
      throw new CaError({ reason: "no-signing-authority", why }, why);
    }
    // After the clock was set back, the current certificate may not be valid yet.
    if (current && validFrom <= now && now < renewAt) {
      if (issuer.authority.id === issuerId) return current;
      followedAt ??= now;
      const isTrusted = view.crlIssuers.some(({ authority }) => authority.id === issuerId);
      if (isTrusted && now < addSeconds(followedAt, learningSeconds)) return current;
    }
    const validity = Validity.ofLeaf(
      0n,
      own.leafLifetimes,
      issuer.authority.certificate.toBeSigned.validity,
      now,
    );
    const issued = await issue(own, issuer, validity, chainPem.slice(0, -1));
    if (own.issuanceLog) await recordOwn(own.issuanceLog, issued.certificate, view, now);
    current = issued;
    issuerId = issuer.authority.id;
    followedAt = undefined;
    [validFrom, renewAt] = [validity.notBefore, renewalOf(validity.notAfter, now)];
    return current;
  };
}

/** Logs the certificate, because one that is in use but not in the log would look stolen. */
async function recordOwn(
  log: IssuanceLog,
  certificate: Bytes,
  view: AuthorityView,
  now: Date,
): Promise<void> {
  const { signal } = new AbortController();
  await log.record({ certificate, at: now }, { view, signal, audit: {} });
}

/** The proof of the CA's own SVID in the log. No token has it, so nothing can renew by it. */
const ownProof = IdentityProof.issuerDigest("the CA itself");

async function issue(
  { dnsNames, spiffeId }: ServingNames,
  issuer: OpenAuthority,
  validity: Validity,
  intermediates: readonly string[],
): Promise<ServingCertificate & { readonly certificate: Bytes }> {
  const { subtle } = crypto;
  const keys = await subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
    "sign",
    "verify",
  ]);
  const publicKey = SubjectPublicKey.parse(
    new Uint8Array(await subtle.exportKey("spki", keys.publicKey)),
  );
  const content = { dnsNames, publicKey, validity };
  const proof = { provedAt: validity.notBefore, issuer: ownProof, isImpersonated: false };
  const { der } = spiffeId
    ? await Leaf.issue(issuer, { ...content, spiffeId, proof })
    : await Leaf.issueServing(issuer, content);
  const privateKey = new Uint8Array(await subtle.exportKey("pkcs8", keys.privateKey));
  return {
    certificate: der,
    chainPem: [Pem.format("CERTIFICATE", der), ...intermediates].join(""),
    keyPem: Pem.format("PRIVATE KEY", privateKey),
  };
}
