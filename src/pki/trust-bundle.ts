import { type Bytes, toHex } from "./bytes.ts";
import { toPem } from "./pem.ts";
import type { ScheduledAuthority } from "./schedule.ts";
import type { Taint } from "./taint.ts";

/** An authority with the roots that verifiers need to accept what it signs. */
export interface PublishedAuthority extends ScheduledAuthority {
  /** DER. */
  readonly roots: readonly Bytes[];
}

/** Every root that a verifier must accept at one instant. */
export interface TrustBundle {
  /** DER, in the order of their authorities' publication, none twice. */
  readonly roots: readonly Bytes[];
  /** The same as PEM blocks, one after the other: the last element of every answer. */
  readonly pem: string;
}

/**
 * The trust bundle at `now`: the roots of every authority from its publication until its last leaf
 * has expired. The order is a function of the authorities alone, so that every reader answers the
 * same bytes.
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
 * A number that grows with every change of the bundle, and with nothing else (SPIFFE Trust Domain and
 * Bundle §4.1.1): the millisecond of its latest change up to `now`, 0 before the first, and one more
 * for each authority that a taint has taken out of it. Those come without notice, so that a reader may
 * learn of one after a later change; the others fall on whole seconds, so that there is room between.
 *
 * @param authorities With the schedules that the taints leave them.
 */
export function bundleSequenceAt(
  authorities: readonly PublishedAuthority[],
  taints: readonly Taint[],
  now: Date,
): number {
  const latest = bundleChanges(authorities, now).at(-1)?.getTime() ?? 0;
  const departed = new Set(taints.filter(({ retiresAt }) => retiresAt <= now).map(({ id }) => id));
  return latest + departed.size;
}

/** The instants up to `now` at which the content of the bundle changed, in their order. */
export function bundleChanges(authorities: readonly PublishedAuthority[], now: Date): Date[] {
  const published = authorities.map(({ id, roots, schedule }) => ({
    id,
    schedule,
    content: roots.map(toHex),
  }));
  const contentAt = (at: number): string =>
    [
      ...new Set(publishedAuthoritiesAt(published, new Date(at)).flatMap(({ content }) => content)),
    ].join();
  const instants = authorities
    .flatMap(({ schedule }) => [schedule.publishedFrom.getTime(), schedule.retiresAt.getTime()])
    .filter((at) => at <= now.getTime());
  let before = "";
  return [...new Set(instants)]
    .toSorted((a, b) => a - b)
    .filter((at) => {
      const after = contentAt(at);
      const isChange = after !== before;
      before = after;
      return isChange;
    })
    .map((at) => new Date(at));
}

function byPublication(a: ScheduledAuthority, b: ScheduledAuthority): number {
  return (
    a.schedule.publishedFrom.getTime() - b.schedule.publishedFrom.getTime() ||
    a.id.localeCompare(b.id)
  );
}
