import { type Bytes, toHex } from "./bytes.ts";
import { toPem } from "./pem.ts";
import type { ScheduledAuthority } from "./rotation.ts";
import type { SigningAuthority } from "./signing-authority.ts";

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
export function trustBundleAt(authorities: readonly SigningAuthority[], now: Date): TrustBundle {
  const distinct = new Map<string, Bytes>();
  for (const { roots } of publishedAuthoritiesAt(authorities, now)) {
    for (const root of roots) distinct.set(toHex(root), root);
  }
  const roots = [...distinct.values()];
  return { roots, pem: roots.map((root) => toPem("CERTIFICATE", root)).join("") };
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
 * A number that grows with every change of the bundle (SPIFFE Trust Domain and Bundle §4.1.1): the
 * second of the latest publication or retirement up to `now`; 0 before the first.
 */
export function bundleSequenceAt(authorities: readonly ScheduledAuthority[], now: Date): number {
  const changes = authorities
    .flatMap(({ schedule }) => [schedule.publishedFrom, schedule.retiresAt])
    .filter((instant) => instant <= now);
  return Math.max(0, ...changes.map((instant) => Math.floor(instant.getTime() / 1000)));
}

function byPublication(a: ScheduledAuthority, b: ScheduledAuthority): number {
  return (
    a.schedule.publishedFrom.getTime() - b.schedule.publishedFrom.getTime() ||
    a.id.localeCompare(b.id)
  );
}
