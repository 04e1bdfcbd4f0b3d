/** The addresses and networks by which limits count callers. */
export const CallerAddress = {
  /**
   * The address that limits count by: an IPv4 address, or the /64 of an IPv6 address. One host usually has
   * a whole /64 to itself (RFC 6177 §2). Empty for no address.
   */
  of(remoteAddress: string | undefined): string {
    if (remoteAddress === undefined) return "";
    const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(remoteAddress) ?? [];
    if (mapped !== undefined) return mapped;
    return remoteAddress.includes(":") ? prefixOf(remoteAddress) : remoteAddress;
  },

  /** The address of a caller behind a gateway. All callers behind one gateway are of one network. */
  behind: (proxy: string, address: string): string => `${address}${behind}${proxy}`,

  /** Whether a network that {@link CallerAddress.networkOf} returned is that of a gateway. */
  isBehindGateway: (network: string): boolean => network.startsWith(behind),

  /** The network of an address that {@link CallerAddress.of} returned: the /24 of IPv4, or the /48 of IPv6, which one site usually has (RFC 6177 §2). */
  networkOf(address: string): string {
    const at = address.indexOf(behind);
    if (at >= 0) return address.slice(at);
    const [, ipv4] = /^(\d+\.\d+\.\d+)\.\d+$/.exec(address) ?? [];
    if (ipv4 !== undefined) return `${ipv4}.0/24`;
    const [, ipv6] = /^((?:[^:]*:){2}[^:]*):[^:]*::\/64$/.exec(address) ?? [];
    return ipv6 === undefined ? address : `${ipv6}::/48`;
  },
};

const behind = " behind ";

function prefixOf(address: string): string {
  const [withoutZone = ""] = address.split("%", 1);
  const [head = "", tail] = withoutZone.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail ? tail.split(":") : [];
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  const groups = [...before, ...Array<string>(Math.max(0, zeros)).fill("0"), ...after];
  return `${groups.slice(0, 4).join(":")}::/64`;
}

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
 * Counts what callers hold: by address, by network, and in all. Every limit on callers counts here.
 *
 * A share is open while one of its amounts is not zero. Its members are the things of one kind that must be found one
 * by one, such as the requests of an address.
 */
export class Shares<Member extends { readonly address: string }, Kind extends string> {
  readonly #nothing: Readonly<Amounts<Kind>>;
  readonly #inAll: Amounts<Kind>;
  readonly #networks = new Map<string, Network<Kind>>();
  protected readonly shares = new Map<string, OpenShare<Member, Kind>>();

  /** @param nothing The kinds, each with 0. */
  constructor(nothing: Readonly<Amounts<Kind>>) {
    this.#nothing = nothing;
    this.#inAll = { ...nothing };
  }

  /** The amount of a kind over all addresses. */
  inAll(kind: Kind): number {
    return this.#inAll[kind];
  }

  /** All open shares, in the order in which they were opened. */
  all(): Iterable<Share<Member, Kind>> {
    return this.shares.values();
  }

  /** The share of an address now; an empty one if it has none. It must not be kept. */
  of(address: string): Share<Member, Kind> {
    return this.shares.get(address) ?? this.#emptyShare(address);
  }

  /** Changes an amount of an address by a positive or negative number. */
  count(address: string, kind: Kind, change: number): void {
    const share = this.shares.get(address) ?? this.#open(address);
    share.amounts[kind] += change;
    share.network.amounts[kind] += change;
    this.#inAll[kind] += change;
    if (share.amounts[kind] === 0 && isEmpty(share)) this.#close(share);
  }

  /** Adds a member, and 1 to the amount of the kind. */
  add(member: Member, kind: Kind): void {
    this.count(member.address, kind, 1);
    this.shares.get(member.address)?.members.add(member);
  }

  /** Removes a member, and 1 from the amount of the kind. @returns Whether it was a member. */
  remove(member: Member, kind: Kind): boolean {
    const isMember = this.shares.get(member.address)?.members.delete(member) ?? false;
    if (isMember) this.count(member.address, kind, -1);
    return isMember;
  }

  /** Whether the network of an address has less of a kind than all addresses together leave free of a maximum. */
  leavesAsMuch(address: string, kind: Kind, maximum: number): boolean {
    return this.of(address).network.amounts[kind] < maximum - this.#inAll[kind];
  }

  #emptyShare(address: string): OpenShare<Member, Kind> {
    const prefix = CallerAddress.networkOf(address);
    const amounts = { ...this.#nothing };
    const network = this.#networks.get(prefix) ?? { prefix, addresses: 0, amounts };
    return { address, network, amounts: { ...this.#nothing }, members: new Set() };
  }

  #open(address: string): OpenShare<Member, Kind> {
    const share = this.#emptyShare(address);
    this.shares.set(address, share);
    this.#networks.set(share.network.prefix, share.network);
    share.network.addresses++;
    return share;
  }

  #close({ address, network }: OpenShare<Member, Kind>): void {
    this.shares.delete(address);
    if (--network.addresses === 0) this.#networks.delete(network.prefix);
  }
}

const isEmpty = ({ amounts }: Share<unknown, string>): boolean =>
  Object.values(amounts).every((amount) => amount === 0);
