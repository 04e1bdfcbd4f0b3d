import { CallerAddress } from "../../foundation/caller-address.ts";

/** Amounts by kind, such as connections, octets, or waiting requests. */
type Amounts<Kind extends string> = Record<Kind, number>;

/** The sum of the amounts of all addresses of a network. */
interface Network<Kind extends string> {
  readonly prefix: string;
  addresses: number;
  readonly amounts: Amounts<Kind>;
}

/** The amounts of an address and of its network. */
export interface Share<Member, Kind extends string> {
  readonly address: string;
  readonly network: Readonly<Network<Kind>>;
  readonly amounts: Readonly<Amounts<Kind>>;
  /** Oldest first. */
  readonly members: ReadonlySet<Member>;
}

interface OpenShare<Member, Kind extends string> extends Share<Member, Kind> {
  readonly network: Network<Kind>;
  readonly amounts: Amounts<Kind>;
  readonly members: Set<Member>;
}

/**
 * Counts what callers hold: by address, by network, and in all. Every limit on callers counts here, and finds here who
 * has most.
 *
 * A share is open while one of its amounts is not zero. Its members are the things of one kind that must be found one
 * by one, such as the requests of an address.
 */
export class Shares<Member extends { readonly address: string }, Kind extends string> {
  readonly #nothing: Readonly<Amounts<Kind>>;
  readonly #inAll: Amounts<Kind>;
  readonly #networks = new Map<string, Network<Kind>>();
  readonly #shares = new Map<string, OpenShare<Member, Kind>>();

  /** @param nothing The kinds, each with 0. */
  constructor(nothing: Readonly<Amounts<Kind>>) {
    this.#nothing = nothing;
    this.#inAll = { ...nothing };
  }

  /** The amount of a kind over all addresses. */
  inAll(kind: Kind): number {
    return this.#inAll[kind];
  }

  /** All open shares, in the order in which they were opened or moved back. */
  all(): Iterable<Share<Member, Kind>> {
    return this.#shares.values();
  }

  /** The share of an address now; an empty one if it has none. It must not be kept. */
  of(address: string): Share<Member, Kind> {
    return this.#shares.get(address) ?? this.#emptyShare(address);
  }

  /** Changes an amount of an address by a positive or negative number. */
  count(address: string, kind: Kind, change: number): void {
    const share = this.#shares.get(address) ?? this.#open(address);
    share.amounts[kind] += change;
    share.network.amounts[kind] += change;
    this.#inAll[kind] += change;
    if (share.amounts[kind] === 0 && isEmpty(share)) this.#close(share);
  }

  /** Adds a member, and 1 to the amount of the kind. */
  add(member: Member, kind: Kind): void {
    this.count(member.address, kind, 1);
    this.#shares.get(member.address)?.members.add(member);
  }

  /** Removes a member, and 1 from the amount of the kind. @returns Whether it was a member. */
  remove(member: Member, kind: Kind): boolean {
    const isMember = this.#shares.get(member.address)?.members.delete(member) ?? false;
    if (isMember) this.count(member.address, kind, -1);
    return isMember;
  }

  /** Moves a share to the end of {@link all}. */
  moveBack(address: string): void {
    const share = this.#shares.get(address);
    if (share && this.#shares.delete(address)) this.#shares.set(address, share);
  }

  /** Finds the largest share for which `isSuch` holds; of equal ones the first of {@link all}. */
  largest(
    kind: Kind,
    isSuch?: (share: Share<Member, Kind>) => boolean,
  ): Share<Member, Kind> | undefined {
    return foremost(this.#shares.values(), (one, other) => isLarger(kind, one, other), isSuch);
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

  #emptyShare(address: string): OpenShare<Member, Kind> {
    const prefix = CallerAddress.networkOf(address);
    const amounts = { ...this.#nothing };
    const network = this.#networks.get(prefix) ?? { prefix, addresses: 0, amounts };
    return { address, network, amounts: { ...this.#nothing }, members: new Set() };
  }

  #open(address: string): OpenShare<Member, Kind> {
    const share = this.#emptyShare(address);
    this.#shares.set(address, share);
    this.#networks.set(share.network.prefix, share.network);
    share.network.addresses++;
    return share;
  }

  #close({ address, network }: OpenShare<Member, Kind>): void {
    this.#shares.delete(address);
    if (--network.addresses === 0) this.#networks.delete(network.prefix);
  }
}

const isEmpty = ({ amounts }: Share<unknown, string>): boolean =>
  Object.values(amounts).every((amount) => amount === 0);

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
