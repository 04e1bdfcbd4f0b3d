import { type Bytes, fingerprintOf, Hex } from "../encoding/bytes.ts";
import { Pem } from "../encoding/pem.ts";
import { Certificate } from "../x509/certificate.ts";
import { SubjectPublicKey } from "../x509/subject-public-key.ts";
import { earlier, later, wholeSeconds } from "../x509/validity.ts";
import { byPublication, type ScheduledAuthority } from "./schedule.ts";
import type { Taint } from "./taint.ts";

/** An authority or an additional root, with the roots that it adds to the bundle. */
export interface PublishedAuthority extends ScheduledAuthority {
  /** DER. */
  readonly roots: readonly Bytes[];
}

/** Every root that a verifier must accept at one instant. */
export interface TrustBundle {
  /** DER, in the order of their authorities' publication, without duplicates. */
  readonly roots: readonly Bytes[];
  /** The roots as PEM blocks: the last element of every response of CreateCertificate. */
  readonly pem: string;
}

/** Makes trust bundles of published authorities. */
export const TrustBundle = {
  /**
   * The trust bundle at `now`: the roots of every authority from its publication until its retirement.
   * The order depends on the authorities alone, so that every reader gives the same bytes.
   */
  at(authorities: readonly PublishedAuthority[], now: Date): TrustBundle {
    const published = TrustBundle.authoritiesAt(authorities, now).flatMap(({ roots }) => roots);
    const distinct = new Map(published.map((root) => [Hex.format(root), root]));
    const roots = [...distinct.values()];
    return { roots, pem: roots.map((root) => Pem.format("CERTIFICATE", root)).join("") };
  },

  /** The authorities whose roots are in the bundle at `now`, in the order of their publication. */
  authoritiesAt<A extends ScheduledAuthority>(authorities: readonly A[], now: Date): readonly A[] {
    return authorities
      .filter(({ schedule }) => schedule.publishedFrom <= now && now < schedule.retiresAt)
      .toSorted(byPublication);
  },

  /**
   * Counts the changes of a bundle up to `now`, by the schedules that its records were minted with.
   *
   * A taint comes without notice: a reader may learn of it after a later change. The tainted record counts in
   * `withdrawn` until its own schedule ends, and that end is a change. All other changes are at whole seconds, so the
   * milliseconds are free for the number of withdrawn records.
   */
  historyAt(
    minted: readonly ScheduledAuthority[],
    taints: readonly Taint[],
    now: Date,
  ): BundleHistory {
    const byId = Map.groupBy(taints, ({ id }) => id);
    const isPast = (instant: Date): boolean => instant <= now;
    const records = minted.map(({ id, schedule: { publishedFrom, retiresAt } }) => {
      const departures = (byId.get(id) ?? []).map((taint) => earlier(taint.retiresAt, retiresAt));
      const isWithdrawn = !isPast(retiresAt) && departures.some(isPast);
      return { changes: [publishedFrom, retiresAt, ...departures].filter(isPast), isWithdrawn };
    });
    return {
      changedAt: Math.max(0, ...records.flatMap(({ changes }) => changes.map(Number))),
      withdrawn: records.filter(({ isWithdrawn }) => isWithdrawn).length,
    };
  },

  /**
   * A number that grows with every change of the bundle and never falls (SPIFFE Trust Domain and Bundle §4.1.1). It
   * may grow without a change, where two authorities have one root.
   *
   * @param parts The histories of all stores whose roots are in the bundle.
   */
  sequence: (parts: readonly BundleHistory[]): number =>
    Math.max(0, ...parts.map(({ changedAt }) => changedAt)) +
    parts.reduce((sum, { withdrawn }) => sum + withdrawn, 0),

  /**
   * Selects the ids of the retired records that can be deleted without lowering the sequence number: those for which a
   * record that stays changed the bundle at the same time or later, and not after `since`. Every run decides alike.
   *
   * @param since The instant up to which every reader has seen every change.
   */
  dispensable(
    retired: readonly ScheduledAuthority[],
    all: readonly ScheduledAuthority[],
    since: Date,
  ): readonly string[] {
    const changedAt = (records: readonly ScheduledAuthority[]): number =>
      TrustBundle.historyAt(records, [], since).changedAt;
    let kept = all;
    const ids = retired.toSorted(byPublication).map(({ id }) => id);
    return ids.filter((id) => {
      const others = kept.filter((each) => each.id !== id);
      const isDispensable = changedAt(others) === changedAt(kept);
      if (isDispensable) kept = others;
      return isDispensable;
    });
  },
};

/** The changes of a bundle, from which its sequence number is computed. */
export interface BundleHistory {
  /** The latest instant at which a schedule or a taint changed the bundle, in milliseconds; 0 before the first. */
  readonly changedAt: number;
  /** How many records a taint keeps out of the bundle although their schedules have them in it, now or later. */
  readonly withdrawn: number;
}

/** A trust bundle with its sequence number (`spiffe_sequence`). */
export interface NumberedBundle {
  /** PEM. */
  readonly pem: string;
  readonly sequence: number;
}

/** A root that verifiers accept although this CA does not sign under it: the root of another CA of the mesh. */
export interface AdditionalRoot extends ScheduledAuthority {
  /** The hexadecimal SHA-256 of the certificate. */
  readonly id: string;
  /** The certificate, DER: a list of one, because the roots of an authority, which may be several, are a list. */
  readonly roots: readonly [Bytes];
}

/** Makes additional roots. */
export const AdditionalRoot = {
  /**
   * Creates a root that the bundle has from an instant until the root expires. Its signing phase is empty: it
   * stops when it starts. It does not check that the certificate is a CA's, or still valid: its callers do.
   *
   * @throws DerError for anything but a certificate; CaError `subject-key-unacceptable` for a key that no
   *   authority may have.
   */
  create(der: Bytes, publishedFrom: Date): AdditionalRoot {
    const { validity, spki } = Certificate.parse(der).toBeSigned;
    SubjectPublicKey.parse(spki);
    const start = wholeSeconds(publishedFrom);
    const retiresAt = later(start, validity.notAfter);
    const schedule = { publishedFrom: start, signsFrom: start, signsUntil: start, retiresAt };
    return { id: fingerprintOf(der), roots: [der], schedule };
  },
};
