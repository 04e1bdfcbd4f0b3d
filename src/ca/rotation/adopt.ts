import { taintedSubject } from "../../custody/record-kinds.ts";
import { adoptedSchedule } from "../../pki/authority/adopted-schedule.ts";
import { requireForeign } from "../../pki/authority/foreign-authority.ts";
import type { PhaseLengths } from "../../pki/authority/schedule.ts";
import {
  type AuthorityCertificates,
  SigningAuthority,
} from "../../pki/authority/signing-authority.ts";
import { Taint } from "../../pki/authority/taint.ts";
import { AdditionalRoot } from "../../pki/authority/trust-bundle.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { Certificate } from "../../pki/x509/certificate.ts";
import { UnsignedCrl } from "../../pki/x509/crl/signed-crl.ts";
import { earlier } from "../../pki/x509/validity.ts";
import { addAuthority, Mint } from "../mint.ts";

/** An authority that signed for this mesh before Rampart did. */
interface AdoptedAuthority {
  readonly certificates: AuthorityCertificates;
  readonly extractablePrivateKey: CryptoKey;
  /** Roots that verifiers accept besides its own, DER. */
  readonly additionalRoots: readonly Bytes[];
}

/**
 * Adopts the authority of an existing mesh into a store without one. It signs at once, because every verifier has its
 * root already. The additional roots are stored first, so that no leaf is signed under a bundle that lacks one.
 *
 * @throws Error if the store has an authority, and for an additional root that was removed before or that
 *   `TAINTED_AUTHORITIES` has; DerError for a certificate that verifiers do not read; CaError
 *   `subject-key-unacceptable`; what {@link addAuthority} throws.
 */
export async function adoptAuthority(
  mint: Mint,
  { certificates, extractablePrivateKey, additionalRoots }: AdoptedAuthority,
  now: Date,
): Promise<SigningAuthority> {
  const stored = await mint.store.load();
  if (stored.some(({ kind }) => kind === "authority")) {
    throw new Error("the store has an authority already: adopting is for one that has none");
  }
  const { certificate, intermediates, roots } = certificates;
  for (const der of [certificate, ...intermediates, ...roots]) requireForeign(mint, der);
  const expiresAt = firstExpiry(certificates);
  const schedule = adoptedSchedule(lengthsOf(mint, expiresAt, now), expiresAt, now);
  const others = additionalRoots.filter(
    (der) => !certificates.roots.some((own) => Bytes.equal(own, der)),
  );
  for (const der of others) await trustRoot(mint, der, schedule.publishedFrom);
  const authority = await SigningAuthority.create(certificates, schedule);
  const detail = "an authority of an existing mesh is in the store, and signs";
  // Verifiers have its root already, even if it may not sign CRLs.
  const crl = UnsignedCrl.maySign(authority) ? mint.crl : undefined;
  await addAuthority(
    { ...mint, crl },
    { authority, extractablePrivateKey },
    "authority-adopted",
    detail,
  );
  return authority;
}

/**
 * Adds a root to the trust bundle. A root that the store has already is not changed.
 *
 * @param publishedFrom Late enough for every reader of the store to know the root by then.
 * @throws DerError for a certificate that a verifier of the mesh may not read; CaError `subject-key-unacceptable`.
 * @throws Error for a root that was removed before, or that `TAINTED_AUTHORITIES` has: its taint would remove it again.
 */
export async function trustRoot(mint: Mint, der: Bytes, publishedFrom: Date): Promise<void> {
  requireForeign(mint, der);
  const root = AdditionalRoot.create(der, publishedFrom);
  const stored = await mint.store.load();
  if (Taint.fromConfiguration(mint.configuredTaints, [root]).length > 0) {
    throw new Error("TAINTED_AUTHORITIES has this root");
  }
  if (stored.some((record) => record.kind === "taint" && taintedSubject(record) === root.id)) {
    throw new Error("a root that was removed does not come back");
  }
  if (stored.some(({ kind, id }) => kind === "root" && id === root.id)) return;
  await Mint.storeStatement(mint, "root", root);
  mint.log.operation({
    event: "root-trusted",
    level: "info",
    detail: "an additional root joins the trust bundle",
    root: root.id,
    publishedFrom: publishedFrom.toISOString(),
  });
}

/** The lengths for an adopted authority: unless `authorityRoot` is `self`, it signs for as long as its certificate allows. */
function lengthsOf(
  { authorityRoot, phaseLengths }: Mint,
  expiresAt: Date,
  now: Date,
): PhaseLengths {
  if (authorityRoot === "self") return phaseLengths;
  return { ...phaseLengths, signingSeconds: (expiresAt.getTime() - now.getTime()) / 1000 };
}

function firstExpiry({ certificate, intermediates, roots }: AuthorityCertificates): Date {
  return [certificate, ...intermediates, ...roots]
    .map((der) => Certificate.parse(der).toBeSigned.validity.notAfter)
    .reduce((first, notAfter) => earlier(first, notAfter));
}
