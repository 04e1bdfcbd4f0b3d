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
