import { FetchError } from "../../foundation/fetch.ts";

/** How much of a watched collection is kept in memory. */
export interface WatchBound<T> {
  readonly items: number;
  readonly octets: number;
  readonly octetsOf: (item: T) => number;
  /** Set if handled items are removed: items beyond the bound are then left out, and listed again after this time. */
  readonly restSeconds?: number;
  /** The owner of an item. Items of the owner with the most are left out first. */
  readonly ownerOf?: (item: T) => string;
}

/** Bounds the memory for a large collection, and for a server that invents objects. */
export const smallItems: WatchBound<unknown> = { items: 50_000, octets: 0, octetsOf: () => 0 };

/** The error for a watched collection that is larger than its bound. */
export class TooMany extends FetchError {
  constructor({ items, octets }: WatchBound<never>) {
    const orOctets = octets > 0 ? `, or ${octets} octets,` : "";
    super(`has more than ${items} objects${orOctets} of a kind that is watched`);
  }
}

/**
 * Finds the item that a new one replaces at the bound.
 * @returns The last key of the owner with most items; `undefined` if the owner of the new item would then have as
 *   many.
 */
export function displacedBy<T>(
  item: T,
  items: ReadonlyMap<string, T>,
  { ownerOf = () => "" }: WatchBound<T>,
): string | undefined {
  const counts = new Map<string, number>();
  for (const each of items.values()) {
    const owner = ownerOf(each);
    counts.set(owner, (counts.get(owner) ?? 0) + 1);
  }
  const [[heaviest, most] = ["", 0]] = [...counts].toSorted(([, one], [, other]) => other - one);
  if ((counts.get(ownerOf(item)) ?? 0) + 1 >= most) return undefined;
  return [...items].findLast(([, each]) => ownerOf(each) === heaviest)?.[0];
}
