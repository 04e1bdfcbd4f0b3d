import { type Loop, systemLoop } from "./loop.ts";
import { first, foremost, hasMore, isLarger, type Share, Shares } from "./shares.ts";

/** The longest time between two looks at work that waits: the limits may have changed. */
const longestLookMilliseconds = 1_000;

/** The most works that run at once, and that wait: in all, and of one address. They may change at any time. */
export interface FairLimits {
  readonly atWork: number;
  readonly atWorkPerAddress: number;
  readonly waiting: number;
  readonly waitingPerAddress: number;
  /** The most that begin in one pass of the event loop, in all and of one address. */
  readonly inOnePass: { readonly all: number; readonly address: number };
  /** Milliseconds after which a work gives way to that of an address with none under way. */
  readonly patience: number;
}

/** A piece of work. */
export interface Piece {
  readonly address: string;
  /** Begins the work, which calls `done` when it has ended. */
  readonly begin: (done: () => void) => void;
  /** Called when the piece has lost its place in the queue, or its turn, to one of another address. */
  readonly giveWay: () => void;
}

/** The pieces of one address that wait, oldest first, and its share of all pieces. */
interface Lane {
  readonly address: string;
  readonly share: Share<"waiting" | "underWay">;
  readonly waiting: Set<Piece>;
  begunInPass: number;
}

/**
 * Begins the work of callers: first that of the network with least under way, and in it that of the address with
 * least. An address whose bound is reached waits for its own work to end, so that its flood delays no other address.
 *
 * At the bound of all, the oldest work of the network with most gives way to a network with less, and within one
 * network that of the address with most to an address with less. An address with none does not wait for longer than
 * the patience: then the oldest work of all gives way. So callers with any
 * number of addresses keep a newcomer only for as long. Few works begin in one pass of the event loop, because the
 * loop reads what other callers send only between two passes.
 */
export class FairQueue {
  readonly #limits: FairLimits;
  readonly #loop: Loop;
  readonly #shares = new Shares({ waiting: 0, underWay: 0 });
  /** Of addresses with as much under way, the one whose turn was longest ago is first. */
  readonly #lanes = new Map<string, Lane>();
  /** When each piece began, oldest first. */
  readonly #underWay = new Map<Piece, number>();
  readonly #begunInPass: Lane[] = [];
  #isImpatient = false;

  constructor(limits: FairLimits, loop: Loop = systemLoop) {
    this.#limits = limits;
    this.#loop = loop;
  }

  /** Begins the work now or later. @returns The limit that is reached, if it never begins. */
  take(piece: Piece): "all" | "address" | undefined {
    const { waiting, waitingPerAddress } = this.#limits;
    const lane = this.#laneOf(piece.address);
    if (this.#hasTurn(lane)) {
      this.#begin(lane, piece);
      return undefined;
    }
    const isFull = lane.waiting.size >= waitingPerAddress;
    if (isFull || (this.#shares.inAll("waiting") >= waiting && !this.#makeRoom(lane))) {
      this.#forgetIdle(lane);
      return isFull ? "address" : "all";
    }
    lane.waiting.add(piece);
    this.#shares.count(lane.share, "waiting", 1);
    this.#giveTurnTo(lane);
    this.#awaitPatience();
    return undefined;
  }

  /** Forgets a piece that waits. */
  withdraw(piece: Piece): void {
    const lane = this.#lanes.get(piece.address);
    if (!lane?.waiting.delete(piece)) return;
    this.#shares.count(lane.share, "waiting", -1);
    this.#forgetIdle(lane);
  }

  /** Drops all waiting work. */
  clear(): void {
    for (const { waiting } of [...this.#lanes.values()])
      for (const piece of waiting) this.withdraw(piece);
  }

  #laneOf(address: string): Lane {
    const known = this.#lanes.get(address);
    if (known) return known;
    const share = this.#shares.open(address);
    const lane = { address, share, waiting: new Set<Piece>(), begunInPass: 0 };
    this.#lanes.set(address, lane);
    return lane;
  }

  #forgetIdle({ address, share, waiting, begunInPass }: Lane): void {
    if (share.amounts.underWay > 0 || begunInPass > 0 || waiting.size > 0) return;
    if (this.#lanes.delete(address)) this.#shares.close(share);
  }

  /** @returns Whether a piece of a network or an address with more has left the queue, or the oldest for an address with none. */
  #makeRoom(own: Lane): boolean {
    const longest = foremost(
      this.#lanes.values(),
      (one, other) => isLarger("waiting", one.share, other.share),
      ({ waiting }) => waiting.size > 0,
    );
    const [oldest] = longest?.waiting ?? [];
    if (!longest || !oldest) return false;
    if (own.waiting.size > 0 && !hasMore("waiting", longest.share, own.share)) return false;
    this.withdraw(oldest);
    oldest.giveWay();
    return true;
  }

  /** @returns Whether work of a network or an address with more, or work that takes too long, has given its turn to this address. */
  #giveTurnTo(own: Lane): boolean {
    const { atWork, atWorkPerAddress } = this.#limits;
    const held = this.#underWay.size;
    if (held < atWork || own.share.amounts.underWay >= atWorkPerAddress) return false;
    const oldest = this.#oldestOfLargest(own) ?? this.#oldestBeyondPatience(own);
    if (!oldest) return false;
    this.#end(oldest);
    oldest.giveWay();
    // More than the bound, where that was lowered: one makes room for one, and the others keep their turns.
    this.#next(held);
    return true;
  }

  /** The oldest work under way of the address with most in the network with most, if that has more by two. */
  #oldestOfLargest(own: Lane): Piece | undefined {
    const shareOf = ({ address }: Piece) => (this.#lanes.get(address) ?? own).share;
    return foremost(
      this.#underWay.keys(),
      (one, other) => isLarger("underWay", shareOf(one), shareOf(other)),
      (piece) => hasMore("underWay", shareOf(piece), own.share),
    );
  }

  #oldestBeyondPatience(own: Lane): Piece | undefined {
    const [[oldest, since] = []] = this.#underWay;
    const isOverdue = since !== undefined && this.#loop.clock() - since >= this.#limits.patience;
    return own.share.amounts.underWay === 0 && isOverdue ? oldest : undefined;
  }

  /** Looks for work that takes too long, and for room that a changed limit gives, while other work waits. */
  #awaitPatience(): void {
    if (this.#isImpatient) return;
    this.#isImpatient = true;
    this.#loop.after(Math.min(longestLookMilliseconds, this.#limits.patience / 2), () => {
      this.#isImpatient = false;
      this.#next();
      this.#relieve();
      if (this.#shares.inAll("waiting") > 0) this.#awaitPatience();
    });
  }

  #hasTurn(lane: Lane): boolean {
    return this.#mayBegin(lane) && this.#hasRoom();
  }

  #mayBegin({ share, begunInPass }: Lane): boolean {
    const { atWorkPerAddress, inOnePass } = this.#limits;
    return share.amounts.underWay < atWorkPerAddress && begunInPass < inOnePass.address;
  }

  #hasRoom(atWork = this.#limits.atWork): boolean {
    const { inOnePass } = this.#limits;
    return this.#underWay.size < atWork && this.#begunInPass.length < inOnePass.all;
  }

  #begin(lane: Lane, piece: Piece): void {
    if (this.#begunInPass.length === 0) this.#loop.afterPass(() => this.#endPass());
    this.#begunInPass.push(lane);
    lane.begunInPass++;
    this.#shares.count(lane.share, "underWay", 1);
    this.#underWay.set(piece, this.#loop.clock());
    piece.begin(() => {
      if (this.#end(piece)) this.#next();
    });
  }

  /** @returns Whether the piece was under way. */
  #end(piece: Piece): boolean {
    const lane = this.#lanes.get(piece.address);
    if (!lane || !this.#underWay.delete(piece)) return false;
    this.#shares.count(lane.share, "underWay", -1);
    this.#forgetIdle(lane);
    return true;
  }

  #endPass(): void {
    for (const lane of this.#begunInPass.splice(0)) {
      lane.begunInPass = 0;
      this.#forgetIdle(lane);
    }
    this.#next();
    this.#relieve();
  }

  /** Work that came in one pass found no turn to take, although others had more. */
  #relieve(): void {
    for (let lane = this.#nextLane(); lane && this.#giveTurnTo(lane); ) lane = this.#nextLane();
  }

  /** Work that ends while it begins leads here again, within one pass. */
  #next(atWork = this.#limits.atWork): void {
    while (this.#hasRoom(atWork)) {
      const lane = this.#nextLane();
      const [piece] = lane?.waiting ?? [];
      if (!lane || !piece) return;
      lane.waiting.delete(piece);
      this.#shares.count(lane.share, "waiting", -1);
      this.#lanes.delete(lane.address);
      this.#lanes.set(lane.address, lane);
      this.#begin(lane, piece);
    }
  }

  #nextLane(): Lane | undefined {
    if (this.#shares.inAll("waiting") === 0) return undefined;
    const hasNext = (lane: Lane) => lane.waiting.size > 0 && this.#mayBegin(lane);
    // In a flood from many networks this is near the front, and most lanes need not be looked at.
    const idle = first(
      this.#lanes.values(),
      (lane) => lane.share.network.amounts.underWay === 0 && hasNext(lane),
    );
    if (idle) return idle;
    return foremost(
      this.#lanes.values(),
      (one, other) => isLarger("underWay", other.share, one.share),
      hasNext,
    );
  }
}
