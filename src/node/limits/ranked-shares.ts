import { type Share, Shares } from "../../foundation/shares.ts";

/** Shares of which the largest can be found, so that it gives way. */
export class RankedShares<
  Member extends { readonly address: string },
  Kind extends string,
> extends Shares<Member, Kind> {
  /** Moves a share to the end of {@link all}. */
  moveBack(address: string): void {
    const share = this.shares.get(address);
    if (share && this.shares.delete(address)) this.shares.set(address, share);
  }

  /** Finds the largest share for which `isSuch` holds; of equal ones the first of {@link all}. */
  largest(
    kind: Kind,
    isSuch?: (share: Share<Member, Kind>) => boolean,
  ): Share<Member, Kind> | undefined {
    return foremost(this.shares.values(), (one, other) => isLarger(kind, one, other), isSuch);
  }

  /** Finds the oldest member for which `isSuch` holds, in the largest share that has one. */
  oldestOfLargest(
    kind: Kind,
    isSuch: (member: Member) => boolean = () => true,
  ): Member | undefined {
    const oldestOf = ({ members }: Share<Member, Kind>) => first(members, isSuch);
    const share = this.largest(kind, (each) => oldestOf(each) !== undefined);
    return share && oldestOf(share);
  }
}

/** Whether a share is larger than another: by its network's amount, or for equal ones by its address's. */
export function isLarger<Kind extends string>(
  kind: Kind,
  one: Share<unknown, Kind>,
  other: Share<unknown, Kind>,
): boolean {
  const more = one.network.amounts[kind] - other.network.amounts[kind];
  return more === 0 ? one.amounts[kind] > other.amounts[kind] : more > 0;
}

/**
 * Whether a share is larger by at least two: its network's amount, or its address's within one network. Then one can
 * pass from it to the other without making the other larger.
 */
export function isLargerByTwo<Kind extends string>(
  kind: Kind,
  one: Share<unknown, Kind>,
  other: Share<unknown, Kind>,
): boolean {
  const isOneNetwork = one.network.prefix === other.network.prefix;
  const [more, less] = isOneNetwork ? [one, other] : [one.network, other.network];
  return more.amounts[kind] > less.amounts[kind] + 1;
}

/** Finds the foremost element by `isBefore` for which `isSuch` holds; of equal ones the first. */
export function foremost<Each>(
  all: Iterable<Each>,
  isBefore: (one: Each, other: Each) => boolean,
  isSuch: (each: Each) => boolean = () => true,
): Each | undefined {
  let found: Each | undefined;
  for (const each of all)
    if ((found === undefined || isBefore(each, found)) && isSuch(each)) found = each;
  return found;
}

/** Finds the first element for which `isSuch` holds. */
export function first<Each>(
  all: Iterable<Each>,
  isSuch: (each: Each) => boolean,
): Each | undefined {
  for (const each of all) if (isSuch(each)) return each;
  return undefined;
}
