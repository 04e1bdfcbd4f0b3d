import { type ConfiguredTaint, Taint } from "../../../src/pki/authority/taint.ts";
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
  /** Keys for tokens, as what they add to the bundle. */
  readonly keys: readonly Written<PublishedAuthority>[];
  readonly taints: readonly Written<Taint>[];
  /** The lines of the configuration, which every process has at its own time. */
  readonly configured: readonly Written<ConfiguredTaint>[];
}

/** What one reader sees. */
export interface Reading {
  readonly authorities: readonly PublishedAuthority[];
  readonly additionalRoots: readonly PublishedAuthority[];
  readonly keys: readonly PublishedAuthority[];
  /** Of the store and of the configuration. */
  readonly taints: readonly Taint[];
}

/** All whose changes count in the bundle's number, with the schedules that they were minted with. */
export const countedIn = (reading: Omit<Reading, "taints">) => [
  ...reading.authorities,
  ...reading.additionalRoots,
  ...reading.keys,
];

/** The taints that lines of the configuration state: a key for tokens leaves with its taint. */
export const statedBy = (
  lines: readonly ConfiguredTaint[],
  { authorities, additionalRoots, keys }: Omit<Reading, "taints">,
): readonly Taint[] => [
  ...Taint.fromConfiguration(lines, [...authorities, ...additionalRoots]),
  ...Taint.fromConfiguration(lines, keys).map(({ id, taintedAt }) => ({
    id,
    taintedAt,
    retiresAt: taintedAt,
  })),
];

/** The bundle's members: those of authorities and roots, and the keys for tokens. */
export const publishedIn = ({ authorities, additionalRoots, keys, taints }: Reading) => [
  ...Taint.apply([...authorities, ...additionalRoots], taints),
  ...Taint.apply(keys, taints),
];

/** Every reading that a store may show: each younger write is seen or not, whatever others are. */
export function readingsOf(
  { authorities, roots, keys, taints, configured }: SmallStore,
  now: number,
  propagationTicks: number,
): readonly Reading[] {
  const records = product(
    seenOf(authorities, now, propagationTicks),
    seenOf(roots, now, propagationTicks),
    seenOf(keys, now, propagationTicks),
  );
  const statements = product(
    seenOf(taints, now, propagationTicks),
    seenOf(configured, now, propagationTicks),
    [0],
  );
  return records.flatMap(([seen, additionalRoots, seenKeys]) =>
    statements.map(([storedTaints, lines]) => ({
      authorities: seen,
      additionalRoots,
      keys: seenKeys,
      taints: [
        ...storedTaints,
        ...statedBy(lines, { authorities: seen, additionalRoots, keys: seenKeys }),
      ],
    })),
  );
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
