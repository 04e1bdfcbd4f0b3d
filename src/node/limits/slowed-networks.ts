import { networkOf } from "../../foundation/addresses.ts";
import type { Limits } from "./limits.ts";
import type { Shares } from "./shares.ts";

/** A connection whose requests at once can be bounded. */
interface Slowable {
  readonly from: string;
  readonly address: string;
  readonly allow: (requests: number) => void;
}

/** The requests that a connection may have at once after one of its network found no room. */
const fewRequests = 8;

/** The share of all requests beyond which the connections of a network begin with few. */
const muchShare = 0.25;

/**
 * The networks whose connections may have few requests at once. To refuse thousands costs the process seconds in which
 * it reads nobody else's; those that wait at their callers cost nothing. A gateway's are as many as usual, and so are
 * those of an address that has far fewer connections than others of its network: its callers may have sent more than a
 * few before they learn how many they may.
 */
export class SlowedNetworks {
  readonly #limits: Limits;
  readonly #all: Iterable<Slowable>;
  readonly #shares: Pick<Shares<Slowable, "connections">, "of" | "largest">;
  readonly #requests = new Map<string, number>();

  /** @param all Those that there are. */
  constructor(
    limits: Limits,
    all: Iterable<Slowable>,
    shares: Pick<Shares<Slowable, "connections">, "of" | "largest">,
  ) {
    this.#limits = limits;
    this.#all = all;
    this.#shares = shares;
  }

  requestsAtOnce({ address, from }: Slowable): number {
    const most = this.#limits.streams_per_connection;
    if (address !== from || this.#isBystander(from)) return most;
    return Math.min(most, this.#requests.get(networkOf(from)) ?? most);
  }

  /** Whether an address has less than half of what the addresses of its network have on average. */
  #isBystander(address: string): boolean {
    const { amounts, network } = this.#shares.of(address);
    return 2 * amounts.connections * network.addresses < network.amounts.connections;
  }

  /**
   * Has the connections of a network take few where they may have a large share of all requests, and no network has far
   * more of them: that one is slowed in place of its victims.
   */
  slowIfMuch(connection: Slowable): void {
    const { streams, streams_per_connection } = this.#limits;
    const { connections } = this.#shares.of(connection.address).network.amounts;
    if (connections * streams_per_connection <= streams * muchShare) return;
    const ofLargest = this.#shares.largest("connections")?.network.amounts.connections ?? 0;
    if (2 * connections > ofLargest) this.slow(connection);
  }

  /** Has the connections of its network take few, because one of its requests found no room. */
  slow(connection: Slowable): void {
    const { address, from } = connection;
    const network = networkOf(from);
    const requests = this.#requests.get(network) ?? this.#limits.streams_per_connection;
    if (address === from && requests > fewRequests) this.#allow(network, fewRequests);
  }

  /** Allows each network twice as many as before. */
  sweep(): void {
    for (const [network, requests] of [...this.#requests]) this.#allow(network, 2 * requests);
  }

  #allow(network: string, requests: number): void {
    if (requests < this.#limits.streams_per_connection) this.#requests.set(network, requests);
    else this.#requests.delete(network);
    for (const each of this.#all)
      if (networkOf(each.from) === network) each.allow(this.requestsAtOnce(each));
  }
}
