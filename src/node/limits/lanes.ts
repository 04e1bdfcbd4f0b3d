import { first, largest } from "./largest.ts";

/** A thing of an address, with the octets that it holds. */
interface Laned {
  readonly address: string;
  octets: number;
}

interface Lane<Each> {
  readonly members: Set<Each>;
  octets: number;
}

/** Things by their addresses, oldest first, and what each address holds of them. */
export class Lanes<Each extends Laned> {
  readonly #lanes = new Map<string, Lane<Each>>();
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
    const lane = this.#lanes.get(each.address) ?? { members: new Set(), octets: 0 };
    this.#lanes.set(each.address, lane);
    lane.members.add(each);
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
    this.#count--;
    this.#grow(lane, -each.octets);
    if (lane.members.size === 0) this.#lanes.delete(each.address);
  }

  /** The oldest such thing of the address with the most things, or with the most octets, that has one. */
  oldestOfLargest(by: "count" | "octets", isSuch: (each: Each) => boolean): Each | undefined {
    const sizeOf = ({ members, octets }: Lane<Each>) => (by === "count" ? members.size : octets);
    const oldestOf = ({ members }: Lane<Each>) => first(members, isSuch);
    const lane = largest(this.#lanes.values(), sizeOf, (each) => oldestOf(each) !== undefined);
    return lane && oldestOf(lane);
  }

  #grow(lane: Lane<Each>, octets: number): void {
    lane.octets += octets;
    this.#octets += octets;
  }
}
