import type { Taint } from "../../../src/pki/authority/taint.ts";
import type { PublishedAuthority } from "../../../src/pki/authority/trust-bundle.ts";

/** A record of a small store, and the ticks in which it was written and deleted. */
export interface Written<T> {
  readonly record: T;
  readonly at: number;
  readonly deletedAt?: number;
}

/** A store in which each record is written once, and a reader may lack what is younger than a propagation interval. */
export interface SmallStore {
  readonly authorities: readonly Written<PublishedAuthority>[];
  readonly roots: readonly Written<PublishedAuthority>[];
  readonly taints: readonly Written<Taint>[];
}

/** What one reader sees. */
export interface Reading {
  readonly authorities: readonly PublishedAuthority[];
  readonly additionalRoots: readonly PublishedAuthority[];
  readonly taints: readonly Taint[];
}

/** Every reading that a store may show: each younger write is seen or not, whatever others are. */
export function readingsOf(
  { authorities, roots, taints }: SmallStore,
  now: number,
  propagationTicks: number,
): readonly Reading[] {
  return product(
    seenOf(authorities, now, propagationTicks),
    seenOf(roots, now, propagationTicks),
    seenOf(taints, now, propagationTicks),
  ).map(([seen, additionalRoots, said]) => ({ authorities: seen, additionalRoots, taints: said }));
}

function seenOf<T>(
  written: readonly Written<T>[],
  now: number,
  propagationTicks: number,
): readonly (readonly T[])[] {
  let readings: readonly (readonly T[])[] = [[]];
  for (const { record, at, deletedAt } of written) {
    const isThere = deletedAt === undefined;
    const isOpen = now - (deletedAt ?? at) < propagationTicks;
    const withIt = isOpen || isThere ? readings.map((each) => [...each, record]) : [];
    readings = isOpen ? [...withIt, ...readings] : isThere ? withIt : readings;
  }
  return readings;
}

function product<A, B, C>(
  one: readonly A[],
  two: readonly B[],
  three: readonly C[],
): readonly (readonly [A, B, C])[] {
  return one.flatMap((a) => two.flatMap((b) => three.map((c) => [a, b, c] as const)));
}

/** Every choice of members of a list, in their order. */
export function choicesOf<T>(list: readonly T[]): readonly (readonly T[])[] {
  let choices: readonly (readonly T[])[] = [[]];
  for (const each of list) choices = choices.flatMap((some) => [[...some, each], some]);
  return choices;
}
