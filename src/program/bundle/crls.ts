import { verify, type X509Certificate } from "node:crypto";
import { CaError } from "../../foundation/errors.ts";
import { Bytes, Hex } from "../../pki/encoding/bytes.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { signatureAlgorithms } from "../../pki/signature-algorithm.ts";
import { Certificate } from "../../pki/x509/certificate.ts";
import { Crl } from "../../pki/x509/crl/crl.ts";
import { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { addSeconds, earlier } from "../../pki/x509/validity.ts";

/** Why a CRL is refused. The one that was read before stays. */
type CrlFault =
  | "issuer-unknown"
  | "signature-invalid"
  | "key-identifier-missing"
  | "critical-extension-unknown"
  | "number-backwards"
  | "not-current";

/** The CAs whose certificates verifiers of the mesh may meet. */
export interface MeshAuthorities {
  readonly roots: readonly X509Certificate[];
  /** The intermediates that this workload has seen. A mesh under another CA's root has more of them. */
  readonly intermediates: readonly X509Certificate[];
}

/** The roots and the CRLs that verifiers get at one time. */
interface UsableCrls {
  /** All but the awaited ones. */
  readonly roots: readonly X509Certificate[];
  /** Empty unless every one of {@link roots} has a CRL. */
  readonly crls: readonly Crl[];
  /** New roots, which wait for their CRLs. */
  readonly awaited: readonly X509Certificate[];
  /** Whether new roots wait a moment for their CRLs. If all roots are new, none waits. */
  readonly isAwaiting: boolean;
  /** The roots without a CRL, which keep every CRL from use unless they are awaited. */
  readonly missing: readonly X509Certificate[];
  /** When this must be computed anew: the next CRL expires, or the wait ends. */
  readonly until: Date | undefined;
}

/** The times of a delivery of roots and CRLs, in seconds. */
interface CrlTimes {
  /**
   * How long before `nextUpdate` a CRL goes out of use. Once it has expired, verifiers refuse every certificate of its
   * issuer.
   */
  readonly margin: number;
  /** How long a new root waits for its CRL. The CA publishes both at the same time. */
  readonly awaited: number;
  /** How long a CRL stays after its root has left. Absent if verifiers get both at one instant. */
  readonly kept?: number;
}

/** The times for a verifier beside this process, which gets every change within seconds. */
const nearTimes: CrlTimes = { margin: 5, awaited: 10 };

/**
 * Keeps the newest CRL of each authority, and decides which roots and CRLs verifiers get.
 *
 * OpenSSL and BoringSSL refuse every certificate whose issuer has no current CRL, as soon as they have a CRL of any
 * authority. CRLs are therefore used together or not at all: each root needs a CRL of its own, or of a known
 * intermediate below it. A late or broken CRL does not displace the one before it. A new root waits for its CRL for a
 * moment. Otherwise each rotation would let revoked certificates in, or have the new root's certificates refused.
 */
export class MeshCrls {
  readonly #crls = new Map<string, Crl>();
  readonly #issuers = new Map<string, CrlAuthority>();
  readonly #times: CrlTimes;
  /** When the issuer of each CRL was last a root of the mesh, or an intermediate below one. */
  readonly #ofMeshAt = new Map<string, Date>();
  /** The CRLs of the last document that have an unknown issuer: its root may still come. */
  #early: readonly Crl[] = [];
  /** The fingerprints of the roots when each of them last had a CRL; empty while no CRL is used. */
  #covered: ReadonlySet<string> = new Set();
  #awaitedUntil: Date | undefined;

  constructor(times: CrlTimes = nearTimes) {
    this.#times = times;
  }

  /** The CRLs that were accepted, whether they are usable or not. */
  get all(): readonly Crl[] {
    return [...this.#crls.values()];
  }

  hasCurrent(now: Date): boolean {
    return this.all.some((crl) => Crl.isCurrentAt(crl, now));
  }

  /**
   * Accepts each CRL that is valid and not older than the one before it, and forgets expired ones. If there are
   * intermediates, a CRL of an unknown issuer is accepted unverified: it may be of another workload's intermediate.
   * @returns Why the others are refused.
   */
  take(crls: readonly Crl[], authorities: MeshAuthorities, now: Date): readonly CrlFault[] {
    const faults = crls.map((crl) => this.#takeOne(crl, authorities, now));
    this.#early = crls.filter((_, i) => faults[i] === "issuer-unknown");
    for (const [key, crl] of this.#crls) {
      if (Crl.isCurrentAt(crl, now)) continue;
      this.#crls.delete(key);
      this.#ofMeshAt.delete(key);
    }
    return faults.filter((fault) => fault !== undefined);
  }

  /** The roots and CRLs to use from now on. */
  usable(authorities: MeshAuthorities, now: Date): UsableCrls {
    const { roots, intermediates } = authorities;
    const named = new Set([...roots, ...intermediates].map(fingerprintOf));
    for (const each of this.#issuers.keys()) if (!named.has(each)) this.#issuers.delete(each);
    this.#early = this.#early.filter((crl) => this.#takeOne(crl, authorities, now) !== undefined);
    const latest = addSeconds(now, this.#times.margin);
    const current = this.all.filter(
      (crl) => Crl.isCurrentAt(crl, latest) && this.#isOfMeshOrKept(crl, authorities, now),
    );
    const missing = roots.filter((root) => !this.#isCovered(root, intermediates, current));
    const ends = current.flatMap(({ nextUpdate }) => nextUpdate ?? []);
    const until =
      ends.length > 0 ? addSeconds(ends.reduce(earlier), -this.#times.margin) : undefined;
    if (missing.length === 0) {
      this.#covered = new Set(current.length > 0 ? roots.map(fingerprintOf) : []);
      this.#awaitedUntil = undefined;
      return { roots, crls: current, awaited: [], isAwaiting: false, missing, until };
    }
    const end = this.#endOfWait(missing, now);
    const isAwaiting = end !== undefined;
    const next = until && end ? earlier(until, end) : (until ?? end);
    const covered = roots.filter((root) => !missing.includes(root));
    if (!isAwaiting || covered.length === 0)
      return { roots, crls: [], awaited: [], isAwaiting, missing, until: next };
    return { roots: covered, crls: current, awaited: missing, isAwaiting, missing, until: next };
  }

  /** The end of the wait of roots without a CRL; `undefined` if they do not wait. */
  #endOfWait(missing: readonly X509Certificate[], now: Date): Date | undefined {
    const areNew = missing.every((root) => !this.#covered.has(fingerprintOf(root)));
    if (this.#covered.size > 0 && areNew) {
      this.#awaitedUntil ??= addSeconds(now, this.#times.awaited);
      if (now < this.#awaitedUntil) return this.#awaitedUntil;
    }
    this.#covered = new Set();
    return undefined;
  }

  /** @returns Why the CRL is refused; `undefined` once it is accepted. */
  #takeOne(crl: Crl, authorities: MeshAuthorities, now: Date): CrlFault | undefined {
    const fault = this.#faultOf(crl, authorities, now);
    if (fault === undefined) this.#crls.set(keyOf(crl), crl);
    return fault;
  }

  #faultOf(crl: Crl, authorities: MeshAuthorities, now: Date): CrlFault | undefined {
    if (crl.hasUnknownCritical) return "critical-extension-unknown";
    // Authorities with the same name differ only by their keys.
    if (crl.authorityKeyIdentifier === undefined) return "key-identifier-missing";
    if (!this.#isOfMesh(crl, authorities)) return "issuer-unknown";
    const named = this.#namedBy(crl, authorities);
    if (named.length > 0 && !named.some((each) => each.hasSigned(crl))) return "signature-invalid";
    const known = this.#crls.get(keyOf(crl));
    if (known && isOlder(crl, known)) return "number-backwards";
    return Crl.isCurrentAt(crl, now) ? undefined : "not-current";
  }

  /**
   * Whether a CRL may be of this mesh. In a mesh with intermediates any CRL may be: an agent does not have the
   * intermediates of other workloads.
   */
  #isOfMesh(crl: Crl, authorities: MeshAuthorities): boolean {
    return authorities.intermediates.length > 0 || this.#namedBy(crl, authorities).length > 0;
  }

  #isOfMeshOrKept(crl: Crl, authorities: MeshAuthorities, now: Date): boolean {
    const key = keyOf(crl);
    const isOfMesh = this.#isOfMesh(crl, authorities);
    if (isOfMesh) this.#ofMeshAt.set(key, now);
    const { kept } = this.#times;
    const at = this.#ofMeshAt.get(key);
    return isOfMesh || (kept !== undefined && at !== undefined && now < addSeconds(at, kept));
  }

  #isCovered(
    root: X509Certificate,
    intermediates: readonly X509Certificate[],
    crls: readonly Crl[],
  ): boolean {
    const below = intermediates.filter((each) => each.checkIssued(root));
    return [root, ...below]
      .map((each) => this.#issuerOf(each))
      .some((issuer) => crls.some((crl) => issuer.isNamedBy(crl) && issuer.hasSigned(crl)));
  }

  #namedBy(crl: Crl, { roots, intermediates }: MeshAuthorities): readonly CrlAuthority[] {
    return [...roots, ...intermediates]
      .map((each) => this.#issuerOf(each))
      .filter((issuer) => issuer.isNamedBy(crl));
  }

  #issuerOf(certificate: X509Certificate): CrlAuthority {
    const { fingerprint256 } = certificate;
    const known = this.#issuers.get(fingerprint256) ?? issuerWith(certificate);
    this.#issuers.set(fingerprint256, known);
    return known;
  }
}

/** Includes the key identifier, because the authorities of a mesh share one name. */
function keyOf({ issuer, authorityKeyIdentifier }: Crl): string {
  return `${Hex.format(issuer)} ${Hex.format(authorityKeyIdentifier ?? new Uint8Array())}`;
}

function isOlder(crl: Crl, known: Crl): boolean {
  if (crl.number !== undefined && known.number !== undefined && crl.number !== known.number) {
    return crl.number < known.number;
  }
  return crl.thisUpdate < known.thisUpdate;
}

/** A CA that may have signed a CRL. */
interface CrlAuthority {
  /** Whether a CRL names this CA as its issuer. */
  readonly isNamedBy: (crl: Crl) => boolean;
  /** Whether this CA has signed the CRL, and may sign CRLs. */
  readonly hasSigned: (crl: Crl) => boolean;
}

/** The issuer with this certificate. If its certificate or key cannot be read here, no CRL counts as issued by it. */
function issuerWith(certificate: X509Certificate): CrlAuthority {
  try {
    const parsed = Certificate.parse(Uint8Array.from(certificate.raw));
    const { algorithm } = SubjectPublicKey.parse(parsed.toBeSigned.spki);
    const signer = Crl.issuer(parsed);
    // Remembered, because a CRL may have megabytes, and each change of the roots asks again.
    const verdicts = new WeakMap<Crl, boolean>();
    const isSigned = ({ signatureAlgorithm, signedBytes, signature }: Crl): boolean => {
      const scheme = signatureAlgorithms[algorithm].find(({ identifier }) =>
        Bytes.equal(identifier, signatureAlgorithm),
      );
      if (!scheme || !signer.maySign) return false;
      return verify(scheme.hash, signedBytes, certificate.publicKey, signature);
    };
    return {
      isNamedBy: (crl) => Crl.isOf(crl, signer),
      hasSigned: (crl) => {
        const verdict = verdicts.get(crl) ?? isSigned(crl);
        verdicts.set(crl, verdict);
        return verdict;
      },
    };
  } catch (error) {
    if (!(error instanceof DerError || error instanceof CaError)) throw error;
    return { isNamedBy: () => false, hasSigned: () => false };
  }
}

const fingerprintOf = ({ fingerprint256 }: X509Certificate): string => fingerprint256;
