import { networkOf } from "../../foundation/addresses.ts";
import type { Limits } from "./limits.ts";

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
 * it reads nobody else's; those that wait at their callers cost nothing. A gateway's are as many as usual.
 */
export class SlowedNetworks {
  readonly #limits: Limits;
  readonly #all: Iterable<Slowable>;
  readonly #requests = new Map<string, number>();

  /** @param all Those that there are. */
  constructor(limits: Limits, all: Iterable<Slowable>) {
    this.#limits = limits;
    this.#all = all;
  }

  requestsAtOnce({ address, from }: Slowable): number {
    const most = this.#limits.streams_per_connection;
    return address === from ? Math.min(most, this.#requests.get(networkOf(from)) ?? most) : most;
  }

  /**
   * Whether so many connections of a network may have a large share of all requests, and no network has far more of
   * them: that one is slowed in place of its victims.
   */
  isMuch(connections: number, ofLargest: number): boolean {
    const { streams, streams_per_connection } = this.#limits;
    const isLarge = connections * streams_per_connection > streams * muchShare;
    return isLarge && 2 * connections > ofLargest;
  }

  /** Has the connections of its network take few, because one of its requests found no room. */
  slow(connection: Slowable): void {
    const { address, from } = connection;
    if (address === from && this.requestsAtOnce(connection) > fewRequests)
      this.#allow(networkOf(from), fewRequests);
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
