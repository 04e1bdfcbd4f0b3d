import { networkOf } from "../../foundation/peer-address.ts";

/** How much there is of each kind. */
type Amounts<Kind extends string> = Record<Kind, number>;

/** What all addresses of one network have. */
interface Network<Kind extends string> {
  readonly prefix: string;
  addresses: number;
  readonly amounts: Amounts<Kind>;
}

/** What one address has, beside what its network has. */
export interface Share<Kind extends string> {
  readonly network: Network<Kind>;
  readonly amounts: Amounts<Kind>;
}

/** Counts what addresses have, what their networks have, and what there is in all. */
export class Shares<Kind extends string> {
  readonly #none: Readonly<Amounts<Kind>>;
  readonly #networks = new Map<string, Network<Kind>>();
  readonly #all: Amounts<Kind>;

  /** @param none No amount of any kind. */
  constructor(none: Readonly<Amounts<Kind>>) {
    this.#none = none;
    this.#all = { ...none };
  }

  /** The share of an address that had none. */
  open(address: string): Share<Kind> {
    const prefix = networkOf(address);
    const network = this.#networks.get(prefix) ?? {
      prefix,
      addresses: 0,
      amounts: { ...this.#none },
    };
    this.#networks.set(prefix, network);
    network.addresses++;
    return { network, amounts: { ...this.#none } };
  }

  /** Forgets a share in which nothing is left. */
  close({ network }: Share<Kind>): void {
    if (--network.addresses === 0) this.#networks.delete(network.prefix);
  }

  /** Adds to an amount, or takes from it. */
  count({ network, amounts }: Share<Kind>, kind: Kind, change: number): void {
    amounts[kind] += change;
    network.amounts[kind] += change;
    this.#all[kind] += change;
  }

  inAll(kind: Kind): number {
    return this.#all[kind];
  }
}

/** Whether a share is larger than another: that of a network with more, and between equal ones of an address with more. */
export function isLarger<Kind extends string>(
  kind: Kind,
  one: Share<Kind>,
  other: Share<Kind>,
): boolean {
  const more = one.network.amounts[kind] - other.network.amounts[kind];
  return more === 0 ? one.amounts[kind] > other.amounts[kind] : more > 0;
}

/** Whether a share is larger by two: in its network, or within the network that both are of. */
export function hasMore<Kind extends string>(
  kind: Kind,
  one: Share<Kind>,
  other: Share<Kind>,
): boolean {
  if (one.network === other.network) return one.amounts[kind] > other.amounts[kind] + 1;
  return one.network.amounts[kind] > other.network.amounts[kind] + 1;
}

/** The one that comes before all others, among such ones: of several equal ones the first. */
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

/** The first such one. */
export function first<Each>(
  all: Iterable<Each>,
  isSuch: (each: Each) => boolean,
): Each | undefined {
  for (const each of all) if (isSuch(each)) return each;
  return undefined;
}

/** A thing of an address, with the octets that it holds. */
interface Laned {
  readonly address: string;
  octets: number;
}

type Kind = "count" | "octets";

interface Lane<Each> {
  readonly share: Share<Kind>;
  readonly members: Set<Each>;
}

/** Things by their addresses, oldest first, and what each address and each network holds of them. */
export class Lanes<Each extends Laned> {
  readonly #lanes = new Map<string, Lane<Each>>();
  readonly #shares = new Shares<Kind>({ count: 0, octets: 0 });

  get count(): number {
    return this.#shares.inAll("count");
  }

  get octets(): number {
    return this.#shares.inAll("octets");
  }

  all(): Each[] {
    return [...this.#lanes.values()].flatMap(({ members }) => [...members]);
  }

  add(each: Each): void {
    const lane = this.#lanes.get(each.address) ?? this.#newLane(each.address);
    lane.members.add(each);
    this.#shares.count(lane.share, "count", 1);
    this.#shares.count(lane.share, "octets", each.octets);
  }

  /** Counts more octets of a thing, unless it has been removed. */
  hold(each: Each, octets: number): void {
    const lane = this.#lanes.get(each.address);
    if (!lane?.members.has(each)) return;
    each.octets += octets;
    this.#shares.count(lane.share, "octets", octets);
  }

  remove(each: Each): void {
    const lane = this.#lanes.get(each.address);
    if (!lane?.members.delete(each)) return;
    this.#shares.count(lane.share, "count", -1);
    this.#shares.count(lane.share, "octets", -each.octets);
    if (lane.members.size > 0) return;
    this.#lanes.delete(each.address);
    this.#shares.close(lane.share);
  }

  /**
   * The oldest such thing of the network with the most things, or with the most octets, that has one, and there of
   * the address with the most.
   */
  oldestOfLargest(by: Kind, isSuch: (each: Each) => boolean): Each | undefined {
    const oldestOf = ({ members }: Lane<Each>) => first(members, isSuch);
    const lane = foremost(
      this.#lanes.values(),
      (one, other) => isLarger(by, one.share, other.share),
      (each) => oldestOf(each) !== undefined,
    );
    return lane && oldestOf(lane);
  }

  #newLane(address: string): Lane<Each> {
    const lane = { share: this.#shares.open(address), members: new Set<Each>() };
    this.#lanes.set(address, lane);
    return lane;
  }
}
