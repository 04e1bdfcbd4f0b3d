import { OperatorError } from "../../foundation/errors.ts";
import { requireForeign } from "../../pki/authority/foreign-authority.ts";
import { rootSince, Succession } from "../../pki/authority/rotation.ts";
import { Schedule } from "../../pki/authority/schedule.ts";
import { SigningAuthority } from "../../pki/authority/signing-authority.ts";
import { Taint } from "../../pki/authority/taint.ts";
import { type Bytes, Hex } from "../../pki/encoding/bytes.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { spiffeIdsOf } from "../../pki/path/path-rules.ts";
import { VerifiedAuthority } from "../../pki/path/verified-authority.ts";
import { UnsignedCrl } from "../../pki/x509/crl/signed-crl.ts";
import { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { addAuthority, type Mint } from "../mint.ts";
import { OpenedStore } from "../opened-store.ts";

/** An intermediate whose path and key were verified. */
export interface NewIntermediate {
  readonly verified: VerifiedAuthority;
  /** The key of its certificate. */
  readonly extractablePrivateKey: CryptoKey;
  /** Roots that come with the intermediate beside its own, and leave the bundle with it. DER. */
  readonly otherRoots: readonly Bytes[];
}

/** Adds verified intermediates of other CAs to the store. */
export const NewIntermediate = {
  /**
   * Puts an intermediate into the store: it is published, then signs, then verifies, by a schedule that is
   * fixed now. The schedules of others stay. Of its roots, the first eight are stored, its own among them.
   *
   * @throws OperatorError for a key that the store has already, and for a certificate that expires too soon, that not
   *   every verifier reads, that has the SPIFFE ID of a workload, or that may not sign the CRLs of this CA.
   */
  async install(
    mint: Mint,
    { verified, extractablePrivateKey, otherRoots }: NewIntermediate,
    now: Date,
  ): Promise<SigningAuthority> {
    requireNoPath(verified);
    for (const { der, title } of verified.path) requireReadable(mint, der, title);
    for (const der of otherRoots) requireReadable(mint, der, "a root beside its own");
    const store = await OpenedStore.open(await mint.store.load(), mint);
    requireNewKey(store, verified);
    const schedule = scheduleFor(mint, store, verified, now);
    const all = [...verified.certificates.roots, ...otherRoots];
    const roots = all.slice(0, VerifiedAuthority.maximumCertificates);
    const authority = await SigningAuthority.create({ ...verified.certificates, roots }, schedule);
    if (mint.crl && !UnsignedCrl.maySign(authority)) {
      throw new OperatorError(
        'the key usage of the intermediate lacks cRLSign: have it certified with that, or set CRL = "off"',
      );
    }
    const created = { authority, extractablePrivateKey };
    const detail = "an intermediate of another CA is in the store";
    await addAuthority(mint, created, "intermediate-installed", detail);
    return authority;
  },
};

/** Refuses an authority whose SPIFFE ID has a path: only a workload's has one (X509-SVID §3.2). */
function requireNoPath({ path: [authority] }: VerifiedAuthority): void {
  const found = spiffeIdsOf(authority).find((id) => id.slice("spiffe://".length).includes("/"));
  if (found === undefined) return;
  throw new OperatorError(
    `${authority.title}: carries the SPIFFE ID of a workload, ${found}: that of a CA has no path (X509-SVID §3.2)`,
  );
}

function requireReadable(mint: Mint, der: Bytes, title: string): void {
  try {
    requireForeign(mint, der);
  } catch (error) {
    if (error instanceof DerError) throw new OperatorError(`${title}: ${error.message}`);
    throw error;
  }
}

/** Refuses a key that the store has already: the record of an authority never changes. */
function requireNewKey(
  { authorities, refusals }: OpenedStore,
  { path: [authority] }: VerifiedAuthority,
) {
  const id = Hex.format(SubjectPublicKey.keyIdentifier(authority.publicKey));
  if (![...authorities, ...refusals].some((each) => each.id === id)) return;
  throw new OperatorError(
    `${authority.title}: the store has an authority with this key: a key is certified once, make a new one`,
  );
}

/**
 * The instant until which other authorities sign for this mesh. In an empty store that joins an existing mesh this is the last
 * instant that a `Date` can hold, so that the first authority signs only after its root has propagated.
 */
function othersSignUntil(
  { joinsMesh }: Mint,
  { authorities, taints }: OpenedStore,
): Date | undefined {
  if (authorities.length > 0) return Succession.lastSignature(Taint.apply(authorities, taints));
  return joinsMesh ? new Date(8.64e15) : undefined;
}

function scheduleFor(
  mint: Mint,
  store: OpenedStore,
  { certificates, notAfter, path: [{ title }] }: VerifiedAuthority,
  now: Date,
): Schedule {
  const { phaseLengths: lengths, authorityRoot } = mint;
  const { authorities, additionalRoots, taints } = store;
  const published = Taint.apply([...authorities, ...additionalRoots], taints);
  const [root] = certificates.roots;
  const visible = addSeconds(now, lengths.propagationSeconds);
  const schedule = Schedule.installed(
    lengths,
    {
      expiresAt: notAfter,
      rootSince: root && rootSince(published, root, visible),
      othersSignUntil: othersSignUntil(mint, store),
    },
    now,
  );
  if (schedule.signsUntil <= schedule.signsFrom) {
    throw new OperatorError(
      `${title}: lives until ${notAfter.toISOString()} only, which leaves no time to sign: after the last ` +
        "certificate that it signs, MAX_WORKLOAD_CERT_TTL and PROPAGATION_INTERVAL must pass before that",
    );
  }
  // If authorities are their own roots, this one signs no longer than such an authority, which then succeeds it.
  const usual = addSeconds(schedule.signsFrom, lengths.signingSeconds);
  if (authorityRoot !== "self" || schedule.signsUntil <= usual) return schedule;
  return { ...schedule, signsUntil: usual };
}
