import { planCrl } from "../../../src/ca/revocation/crl-plan.ts";
import type { AuthorityStore } from "../../../src/custody/authority-store.ts";
import type { KekRing } from "../../../src/custody/kek.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { AdditionalRoot } from "../../../src/pki/authority/trust-bundle.ts";
import { SignatureAlgorithm } from "../../../src/pki/signature-algorithm.ts";
import type { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { webSigningKey } from "../../../src/pki/web-crypto.ts";
import { Crl } from "../../../src/pki/x509/crl/crl.ts";
import { UnsignedCrl } from "../../../src/pki/x509/crl/signed-crl.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { scheduleAfter } from "./sealed-authorities.ts";

/** The records of a CA. */
interface Records {
  readonly store: AuthorityStore;
  readonly keks: KekRing;
  readonly trustDomain: TrustDomain;
}

const year = 365 * 86_400;

/**
 * Puts the root of another CA into the bundle of a CA, with its CRL. Its name is that of the CA's own authorities, and the
 * number of the CRL that of their first one, which names no certificate: this one names one.
 */
export async function addNamesake(
  { store, ...sealing }: Records,
  now: Date,
  lifetimeSeconds = 86_400,
): Promise<void> {
  const schedule = scheduleAfter(now, [-year, -year, year, year]);
  const { trustDomain } = sealing;
  const created = await NewAuthority.create(trustDomain, "EC-P256", schedule);
  const { certificate } = created.authority;
  const algorithm = SignatureAlgorithm.of(SubjectPublicKey.parse(certificate.toBeSigned.spki));
  const key = webSigningKey(created.extractablePrivateKey, algorithm);
  const signer = SigningAuthority.open(created.authority, key);
  const content = planCrl("", [], { lifetimeSeconds, propagationSeconds: 0 }, now);
  const { thisUpdate } = content;
  const named = { serialNumber: "0a", revokedAt: thisUpdate, reason: "keyCompromise" as const };
  const crl = await UnsignedCrl.sign(
    signer,
    UnsignedCrl.prepare(signer, {
      ...content,
      nextUpdate: addSeconds(wholeSeconds(now), year),
      revoked: [named],
    }),
  );
  const root = AdditionalRoot.create(certificate.der, schedule.publishedFrom);
  await store.put(await Statement.seal("root", root, sealing));
  await store.put(await Statement.seal("crl", Crl.parse(crl), sealing));
}

/** Changes of a store that concern nobody: a revocation of a certificate of another CA comes and goes. */
export async function changesOfNamesake(
  { store, ...sealing }: Records,
  now: Date,
): Promise<() => Promise<unknown>> {
  const revokedAt = wholeSeconds(now);
  const content = {
    authority: "0a",
    revokedAt,
    knownFrom: revokedAt,
    reason: "superseded" as const,
    certificates: new Map([["0a", addSeconds(revokedAt, year).getTime() / 1000]]),
  };
  const record = await Statement.seal("revocation", content, sealing);
  let isThere = false;
  return () => {
    isThere = !isThere;
    return isThere ? store.put(record) : store.delete(record);
  };
}
