import { networkOf } from "../../foundation/peer-address.ts";
import { first, largest } from "./largest.ts";

/** A thing of an address, with the octets that it holds. */
interface Laned {
  readonly address: string;
  octets: number;
}

/** What all addresses of one network hold. */
interface Network {
  lanes: number;
  count: number;
  octets: number;
}

interface Lane<Each> {
  readonly network: Network;
  readonly members: Set<Each>;
  octets: number;
}

/** Things by their addresses, oldest first, and what each address and each network holds of them. */
export class Lanes<Each extends Laned> {
  readonly #lanes = new Map<string, Lane<Each>>();
  readonly #networks = new Map<string, Network>();
  #count = 0;
  #octets = 0;

  get count(): number {
    return this.#count;
  }

  get octets(): number {
    return this.#octets;
  }

  all(): Each[] {
    return [...this.#lanes.values()].flatMap(({ members }) => [...members]);
  }

  add(each: Each): void {
    const lane = this.#lanes.get(each.address) ?? this.#newLane(each.address);
    lane.members.add(each);
    lane.network.count++;
    this.#count++;
    this.#grow(lane, each.octets);
  }

  /** Counts more octets of a thing, unless it has been removed. */
  hold(each: Each, octets: number): void {
    const lane = this.#lanes.get(each.address);
    if (!lane?.members.has(each)) return;
    each.octets += octets;
    this.#grow(lane, octets);
  }

  remove(each: Each): void {
    const lane = this.#lanes.get(each.address);
    if (!lane?.members.delete(each)) return;
    lane.network.count--;
    this.#count--;
    this.#grow(lane, -each.octets);
    if (lane.members.size > 0) return;
    this.#lanes.delete(each.address);
    if (--lane.network.lanes === 0) this.#networks.delete(networkOf(each.address));
  }

  /**
   * The oldest such thing of the network with the most things, or with the most octets, that has one, and there of
   * the address with the most.
   */
  oldestOfLargest(by: "count" | "octets", isSuch: (each: Each) => boolean): Each | undefined {
    const sizeOf = ({ members, octets }: Lane<Each>) => (by === "count" ? members.size : octets);
    const oldestOf = ({ members }: Lane<Each>) => first(members, isSuch);
    const hasSuch = (lane: Lane<Each>) => oldestOf(lane) !== undefined;
    const of = largest(this.#lanes.values(), ({ network }) => network[by], hasSuch)?.network;
    const isOfIt = (lane: Lane<Each>) => lane.network === of && hasSuch(lane);
    const lane = largest(this.#lanes.values(), sizeOf, isOfIt);
    return lane && oldestOf(lane);
  }

  #newLane(address: string): Lane<Each> {
    const prefix = networkOf(address);
    const network = this.#networks.get(prefix) ?? { lanes: 0, count: 0, octets: 0 };
    this.#networks.set(prefix, network);
    network.lanes++;
    const lane = { network, members: new Set<Each>(), octets: 0 };
    this.#lanes.set(address, lane);
    return lane;
  }

  #grow(lane: Lane<Each>, octets: number): void {
    lane.octets += octets;
    lane.network.octets += octets;
    this.#octets += octets;
  }
}
