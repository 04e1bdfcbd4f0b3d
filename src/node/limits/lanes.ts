import { first, foremost } from "./foremost.ts";
import { isLarger, type Share, Shares } from "./shares.ts";

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
