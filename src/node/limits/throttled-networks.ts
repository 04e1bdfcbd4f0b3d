import { CallerAddress } from "../../foundation/shares.ts";
import type { Limits } from "./limits.ts";
import type { RankedShares } from "./ranked-shares.ts";

/** A connection whose concurrent requests can be bounded. */
interface Throttleable {
  readonly from: string;
  readonly address: string;
  readonly allow: (requests: number) => void;
}

/** How many concurrent requests a connection of a throttled network may have at first. */
const throttledRequests = 8;

/** A network is throttled at once if its connections could open more than this share of all streams. */
const muchShare = 0.25;

/**
 * Throttles networks: their connections may have only eight concurrent requests, and twice as many after each sweep.
 * Refusing thousands of requests takes the process seconds in which it serves nobody else, while requests that wait at
 * their callers cost nothing. Gateways are never throttled. Neither is an address with far fewer connections than the
 * others of its network, because its callers may have sent more requests than eight before they learn of the limit.
 */
export class ThrottledNetworks {
  readonly #limits: Limits;
  readonly #all: Iterable<Throttleable>;
  readonly #shares: Pick<RankedShares<Throttleable, "connections">, "of" | "largest">;
  readonly #requests = new Map<string, number>();

  /** @param all The established connections, a live collection. */
  constructor(
    limits: Limits,
    all: Iterable<Throttleable>,
    shares: Pick<RankedShares<Throttleable, "connections">, "of" | "largest">,
  ) {
    this.#limits = limits;
    this.#all = all;
    this.#shares = shares;
  }

  requestsAtOnce({ address, from }: Throttleable): number {
    const most = this.#limits.streams_per_connection;
    if (address !== from || this.#isBystander(from)) return most;
    return Math.min(most, this.#requests.get(CallerAddress.networkOf(from)) ?? most);
  }

  /** Whether an address has less than half of what the addresses of its network have on average. */
  #isBystander(address: string): boolean {
    const { amounts, network } = this.#shares.of(address);
    return 2 * amounts.connections * network.addresses < network.amounts.connections;
  }

  /**
   * Throttles the network of a new connection if its connections could open a large share of all streams. It does
   * nothing while another network has more than twice as many connections: that one is throttled, not its victims.
   */
  throttleIfLarge(connection: Throttleable): void {
    const { streams, streams_per_connection } = this.#limits;
    const { connections } = this.#shares.of(connection.address).network.amounts;
    if (connections * streams_per_connection <= streams * muchShare) return;
    const ofLargest = this.#shares.largest("connections")?.network.amounts.connections ?? 0;
    if (2 * connections > ofLargest) this.throttle(connection);
  }

  /** Throttles the network of a connection, because one of its requests was refused at the limit of streams. */
  throttle(connection: Throttleable): void {
    const { address, from } = connection;
    const network = CallerAddress.networkOf(from);
    const requests = this.#requests.get(network) ?? this.#limits.streams_per_connection;
    if (address === from && requests > throttledRequests) this.#allow(network, throttledRequests);
  }

  /** Doubles the requests that each throttled network may have. */
  sweep(): void {
    for (const [network, requests] of [...this.#requests]) this.#allow(network, 2 * requests);
  }

  #allow(network: string, requests: number): void {
    if (requests < this.#limits.streams_per_connection) this.#requests.set(network, requests);
    else this.#requests.delete(network);
    for (const each of this.#all)
      if (CallerAddress.networkOf(each.from) === network) each.allow(this.requestsAtOnce(each));
  }
}
