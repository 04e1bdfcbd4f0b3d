import { type RevocationContent, statementKinds } from "../../custody/record-kinds.ts";
import { messageOf } from "../../foundation/errors.ts";
import { type PhaseLengths, Schedule } from "../../pki/authority/schedule.ts";
import type { SigningAuthority } from "../../pki/authority/signing-authority.ts";
import { Hex } from "../../pki/encoding/bytes.ts";
import { CaCertificate } from "../../pki/path/certification-path.ts";
import { isSignedByKey } from "../../pki/x509/certificate-signature.ts";
import { Crl } from "../../pki/x509/crl/crl.ts";
import { UnsignedCrl } from "../../pki/x509/crl/signed-crl.ts";
import type { CertificateSigner } from "../../pki/x509/leaf/certificate-signer.ts";
import { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { addSeconds, wholeSeconds } from "../../pki/x509/validity.ts";
import { Mint } from "../mint.ts";
import { OpenedStore } from "../opened-store.ts";
import { type CrlLengths, planCrl } from "./crl-plan.ts";
import { newestOf, numberOf } from "./published-crls.ts";

/**
 * A root's CRL is valid for at least eight months and is replaced while six are left, so that it does not expire during
 * a long outage of the key service.
 */
const shortestLifetimeSeconds = 240 * 86_400;

/**
 * The lifetime of a root's CRL: longer than that of any intermediate that it may revoke. So the CRL is valid until the
 * last intermediate expires, even if the mesh moves to another CA.
 */
export function rootCrlLengths(phaseLengths: PhaseLengths): CrlLengths {
  const longest = phaseLengths.signingSeconds + 2 * Schedule.leadSeconds(phaseLengths);
  const lifetimeSeconds = Math.max(shortestLifetimeSeconds, Math.ceil((longest * 4) / 3));
  return { lifetimeSeconds, propagationSeconds: phaseLengths.propagationSeconds };
}

/**
 * Has each root in a key service sign its next CRL: for a new period of months, and once a tainted intermediate
 * has left the bundle. A root that is not self-issued, or may not sign CRLs, is left out. The store of the first mint keeps
 * the CRLs; the intermediates may be in the stores of all.
 *
 * @throws AggregateError with the fault of each root that signed none.
 */
export async function keepRootCrls(mints: readonly Mint[], now: Date): Promise<void> {
  const roots = new Map(mints.flatMap(rootOf));
  const [keeper] = mints;
  if (!keeper || roots.size === 0) return;
  const stores = await Promise.all(mints.map(openQuietly));
  const faults: unknown[] = [];
  for (const root of roots.values()) {
    try {
      await keepCrl(keeper, root, stores, now);
    } catch (error) {
      faults.push(error);
      keeper.log.operation({ event: "crl-fault", level: "error", detail: messageOf(error) });
    }
  }
  await dropExpired(keeper, stores[0]?.statements.crl ?? [], now);
  if (faults.length > 0) throw new AggregateError(faults, "a root in a key service signed no CRL");
}

function rootOf({ crlRoot }: Mint): [string, CertificateSigner][] {
  // If a root is not self-issued, its CRL is of no use without one of the CA above it, which this CA does not have.
  if (
    !(
      crlRoot &&
      UnsignedCrl.maySign(crlRoot.signer) &&
      CaCertificate.isSelfIssued(crlRoot.signer.certificate)
    )
  )
    return [];
  return [[Hex.format(crlRoot.signer.certificate.toBeSigned.spki), crlRoot.signer]];
}

/** Opens the store without a log: the rotation has logged which records do not open. */
async function openQuietly(mint: Mint): Promise<OpenedStore> {
  const log = { ...mint.log, operation: () => {} };
  return OpenedStore.open(await mint.store.load(), { ...mint, log });
}

async function keepCrl(
  keeper: Mint,
  root: CertificateSigner,
  stores: readonly OpenedStore[],
  now: Date,
): Promise<void> {
  const [own] = stores;
  // A store with records but no authority passes for one that has lost its authorities, so it gets no CRL.
  if (!own || own.authorities.length === 0) return;
  const authority = Hex.format(SubjectPublicKey.keyIdentifier(publicKeyOf(root)));
  const lengths = rootCrlLengths(keeper.phaseLengths);
  const revoked = await revokedBelow(root, stores, now);
  const revocations = revoked.map((each) => ({ authority, ...revocationOf(each, lengths) }));
  const content = planCrl(authority, revocations, lengths, now);
  const known = newestOf(root.certificate, own.statements.crl);
  if (known && numberOf(known) >= BigInt(`0x${Hex.format(content.number)}`)) return;
  const crl = Crl.parse(await UnsignedCrl.sign(root, UnsignedCrl.prepare(root, content)));
  await Mint.storeStatement(keeper, "crl", crl);
  keeper.log.operation({
    event: "root-crl-signed",
    level: "info",
    detail: "a root in a key service signed its next CRL",
    authority,
    certificates: content.revoked.length,
    nextUpdate: content.nextUpdate.toISOString(),
  });
}

const publicKeyOf = ({ certificate }: CertificateSigner): SubjectPublicKey =>
  SubjectPublicKey.parse(certificate.toBeSigned.spki);

/** Finds the tainted intermediates of a root that have left the bundle. */
async function revokedBelow(
  root: CertificateSigner,
  stores: readonly OpenedStore[],
  now: Date,
): Promise<readonly SigningAuthority[]> {
  const publicKey = publicKeyOf(root);
  const retired = stores.flatMap(({ openAuthorities, taints }) =>
    openAuthorities
      .map(({ authority }) => authority)
      .filter((each) => each.schedule.retiresAt <= now && taints.some(({ id }) => id === each.id)),
  );
  const areBelow = await Promise.all(
    retired.map(({ certificate }) => isSignedByKey(certificate, publicKey)),
  );
  return retired.filter((_, i) => areBelow[i]);
}

function revocationOf(
  { certificate, schedule }: SigningAuthority,
  { propagationSeconds }: CrlLengths,
): Omit<RevocationContent, "authority"> {
  const { serialNumber, validity } = certificate.toBeSigned;
  const revokedAt = wholeSeconds(schedule.retiresAt);
  return {
    revokedAt,
    knownFrom: addSeconds(revokedAt, propagationSeconds),
    reason: "cACompromise",
    certificates: new Map([[Hex.format(serialNumber), validity.notAfter.getTime() / 1000]]),
  };
}

/** Deletes expired CRLs. An older one stays until it expires, so that no reader ever finds none. */
async function dropExpired({ store }: Mint, stored: readonly Crl[], now: Date): Promise<void> {
  for (const crl of stored) {
    if (crl.nextUpdate && crl.nextUpdate <= now)
      await store.delete({ kind: "crl", id: statementKinds.crl.idOf(crl) });
  }
}
