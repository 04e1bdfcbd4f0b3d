import type { SigningKey } from "../crypto-provider.ts";
import { type Bytes, Hex } from "../encoding/bytes.ts";
import { Certificate } from "../x509/certificate.ts";
import { CertificateSigner } from "../x509/leaf/certificate-signer.ts";
import { SubjectPublicKey } from "../x509/subject-public-key.ts";
import { inOrderOf, Schedule, type ScheduledAuthority } from "./schedule.ts";

/** An authority without its private key: the certificate that signs leaves, its path to the roots, its schedule. */
export interface SigningAuthority {
  /** The key identifier in hexadecimal. Leaves carry it as their authority key identifier. */
  readonly id: string;
  readonly certificate: Certificate;
  readonly publicKey: SubjectPublicKey;
  /** The path from the authority itself up to the root, without the root. Empty when the authority is the root. */
  readonly intermediates: readonly Bytes[];
  /** Every self-signed root that a verifier needs for the leaves of this authority. */
  readonly roots: readonly Bytes[];
  readonly schedule: Schedule;
}

/** The certificates of an authority, DER. */
export interface AuthorityCertificates {
  readonly certificate: Bytes;
  readonly intermediates: readonly Bytes[];
  readonly roots: readonly Bytes[];
}

/** Makes and opens authorities, and selects the one that signs. */
export const SigningAuthority = {
  /**
   * Reads the certificate of an authority.
   *
   * @throws DerError for anything but a certificate; CaError `subject-key-unacceptable` for its key.
   */
  async create(
    { certificate: der, intermediates, roots }: AuthorityCertificates,
    schedule: Schedule,
  ): Promise<SigningAuthority> {
    const certificate = Certificate.parse(der);
    const publicKey = SubjectPublicKey.parse(certificate.toBeSigned.spki);
    const id = Hex.format(SubjectPublicKey.keyIdentifier(publicKey));
    return { id, certificate, publicKey, intermediates, roots, schedule };
  },

  /** Joins an authority with its open key. It does not check that the key is the authority's. */
  open(authority: SigningAuthority, signingKey: SigningKey): OpenAuthority {
    const { certificate, publicKey } = authority;
    return { authority, ...CertificateSigner.create(certificate, publicKey, signingKey) };
  },

  /**
   * Selects the authority that signs at `now`; `undefined` when none is in its signing phase.
   *
   * Of several, the newest signs. Two isolates that read different replicas may disagree for as long as a write takes
   * to propagate. Both answers verify, because an authority is published long before it signs.
   *
   * @param authorities Every authority, in any order.
   */
  at<A extends ScheduledAuthority>(authorities: readonly A[], now: Date): A | undefined {
    return authorities
      .filter((a) => Schedule.phaseAt(a.schedule, now) === "signing")
      .toSorted(
        (a, b) =>
          b.schedule.signsFrom.getTime() - a.schedule.signsFrom.getTime() ||
          a.id.localeCompare(b.id),
      )[0];
  },

  /**
   * Selects the authority that signs next: the first to begin after `now`; `undefined` without one. A tainted one and an
   * additional root have an empty signing phase, and never sign.
   */
  nextAt<A extends ScheduledAuthority>(authorities: readonly A[], now: Date): A | undefined {
    return authorities
      .filter(({ schedule: { signsFrom } }) => now < signsFrom)
      .filter(({ schedule: { signsFrom, signsUntil } }) => signsFrom < signsUntil)
      .toSorted(inOrderOf("signsFrom"))[0];
  },
};

/** An authority with its key open. */
export interface OpenAuthority extends CertificateSigner {
  readonly authority: SigningAuthority;
}
