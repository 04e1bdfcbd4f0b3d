import { type Bytes, toHex } from "../encoding/bytes.ts";
import { toPem } from "../encoding/pem.ts";
import type { ScheduledAuthority } from "./schedule.ts";
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
  /** The same roots as PEM blocks: the last element of every answer of CreateCertificate. */
  readonly pem: string;
}

/**
 * The trust bundle at `now`: the roots of every authority from its publication until its retirement.
 * The order depends on the authorities alone, so that every reader gives the same bytes.
 */
export function trustBundleAt(authorities: readonly PublishedAuthority[], now: Date): TrustBundle {
  const roots = [...distinctRootsAt(authorities, now).values()];
  return { roots, pem: roots.map((root) => toPem("CERTIFICATE", root)).join("") };
}

function distinctRootsAt(
  authorities: readonly PublishedAuthority[],
  now: Date,
): ReadonlyMap<string, Bytes> {
  const published = publishedAuthoritiesAt(authorities, now);
  return new Map(published.flatMap(({ roots }) => roots.map((root) => [toHex(root), root])));
}

/** The authorities whose roots are in the bundle at `now`, in the order of their publication. */
export function publishedAuthoritiesAt<A extends ScheduledAuthority>(
  authorities: readonly A[],
  now: Date,
): readonly A[] {
  return authorities
    .filter(({ schedule }) => schedule.publishedFrom <= now && now < schedule.retiresAt)
    .toSorted(byPublication);
}

/**
 * A number that grows with every change of the bundle and with nothing else (SPIFFE Trust Domain and
 * Bundle §4.1.1).
 *
 * It is the millisecond of the latest change up to `now`, or 0 before the first. Each authority that a
 * taint has taken out adds one. A taint comes without notice: a reader may learn of it after a
 * later change. Other changes fall on whole seconds, which leaves room for these additions.
 *
 * @param authorities The authorities with the schedules that the taints leave them.
 */
export function bundleSequenceAt(
  authorities: readonly PublishedAuthority[],
  taints: readonly Taint[],
  now: Date,
): number {
  const latest = latestBundleChange(authorities, now)?.getTime() ?? 0;
  const departed = new Set(taints.filter(({ retiresAt }) => retiresAt <= now).map(({ id }) => id));
  return latest + departed.size;
}

/**
 * The latest instant up to `now` at which the content of the bundle changed; `undefined` before the
 * first.
 */
export function latestBundleChange(
  authorities: readonly PublishedAuthority[],
  now: Date,
): Date | undefined {
  const contents = authorities.toSorted(byPublication).map(({ roots, schedule }) => ({
    from: schedule.publishedFrom.getTime(),
    until: schedule.retiresAt.getTime(),
    content: roots.map(toHex),
  }));
  const contentAt = (at: number): string => {
    const published = contents.filter(({ from, until }) => from <= at && at < until);
    return [...new Set(published.flatMap(({ content }) => content))].join();
  };
  const latest = contents
    .flatMap(({ from, until }) => [from, until])
    .filter((at) => at <= now.getTime())
    .toSorted((a, b) => b - a)
    .find((at) => contentAt(at) !== contentAt(at - 1));
  return latest === undefined ? undefined : new Date(latest);
}

function byPublication(a: ScheduledAuthority, b: ScheduledAuthority): number {
  return (
    a.schedule.publishedFrom.getTime() - b.schedule.publishedFrom.getTime() ||
    a.id.localeCompare(b.id)
  );
}

/** A trust bundle with its sequence number (`spiffe_sequence`). */
export interface NumberedBundle {
  /** PEM. */
  readonly pem: string;
  readonly sequence: number;
}
