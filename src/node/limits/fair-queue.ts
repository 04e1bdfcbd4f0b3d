import { CallerAddress, type Share } from "../../foundation/shares.ts";
import { first, foremost, isLarger, isLargerByTwo, RankedShares } from "./ranked-shares.ts";

/** The most work under way and waiting, in all and of one address. */
export interface FairLimits {
  readonly underWay: number;
  readonly underWayPerAddress: number;
  readonly waiting: number;
  readonly waitingPerAddress: number;
  /** The most work that begins in one tick of the event loop, in all and of one address. */
  readonly inOneTick: { readonly all: number; readonly address: number };
  /** How long work keeps its turn while an address without a turn waits, in milliseconds. */
  readonly timeLimit: number;
}

/** Work that needs a turn. */
export interface Work {
  readonly address: string;
  /** Begins the work, which calls `done` when it has ended. */
  readonly begin: (done: () => void) => void;
  /** Called when the work has lost its place in the queue, or its turn, to another address. */
  readonly shed: () => void;
}

type Kind = "waiting" | "underWay" | "begunInTick";

/** The share of an address, whose members are its waiting work. */
type QueueShare = Share<Work, Kind>;

/** The clock and the callbacks of the event loop, which tests replace. */
export interface Loop {
  readonly clock: () => number;
  /** Calls back once, in the next tick of the event loop, after it has read from every socket. */
  readonly afterTick: (resume: () => void) => void;
  /** Calls back once, after so many milliseconds. */
  readonly after: (milliseconds: number, resume: () => void) => void;
}

const systemLoop: Loop = {
  clock: () => performance.now(),
  afterTick: setImmediate,
  after: (milliseconds, resume) => void setTimeout(resume, milliseconds).unref(),
};

/** A caller behind a gateway may have a quarter of the gateway's turns, so that it does not keep the others waiting. */
const partsOfGateway = 4;

/** The longest time between two checks of waiting work, for changed limits. */
const longestCheckMilliseconds = 1_000;

/**
 * Decides whose work begins next, so that no flood keeps the callers of other networks waiting.
 *
 *     take ───▶ waiting ───▶ under way ───▶ done
 *                  │             │
 *                  └──▶ shed ◀───┘
 *
 * Each work has an address, and each address a network. A share is what an address and its network have: one is
 * larger than another if its network has more, and between equal networks if its address has more.
 *
 * 1. A free turn goes to the smallest share under way. Of equal ones, the one whose last turn was longest ago gets it.
 * 2. An address at its bound waits for its own work to end, and delays no other address. A gateway has the bound of
 *    an address, and a caller behind it a quarter of that.
 * 3. When all turns are taken, the largest share sheds its oldest work for a share that is smaller by two. Equals shed
 *    nothing for each other, so that a herd that arrives at once does not undo its own work.
 * 4. Work that never ends would keep its turn. So once the oldest work of all has had its turn for the time limit, it
 *    is shed for an address with nothing under way.
 * 5. A full queue sheds the oldest waiting work of the largest share, for an address without waiting work or for a
 *    share that is smaller by two. Otherwise it refuses the new work.
 * 6. Few works begin in one tick of the event loop. The loop reads what other callers send only between two ticks.
 *
 * By rule 3, one network never delays another, whatever the number of its addresses. By rule 4, strangers in many
 * networks delay a newcomer by one time limit for each round of turns before it.
 */
export class FairQueue {
  readonly #limits: () => FairLimits;
  readonly #loop: Loop;
  readonly #shares = new RankedShares<Work, Kind>({ waiting: 0, underWay: 0, begunInTick: 0 });
  /** When each work began, oldest first. */
  readonly #underWay = new Map<Work, number>();
  readonly #begunInTick: string[] = [];
  #willCheck = false;

  /** @param limits They may change at any time. */
  constructor(limits: () => FairLimits, loop: Loop = systemLoop) {
    this.#limits = limits;
    this.#loop = loop;
  }

  /** Begins the work now or later. @returns The limit by which it is refused; `undefined` if it is accepted. */
  take(work: Work): "all" | "address" | undefined {
    const limits = this.#limits();
    const { address } = work;
    if (hasTurn(this.#shares.of(address), limits) && this.#hasPermit(limits)) {
      this.#begin(work);
      return undefined;
    }
    if (this.#shares.of(address).amounts.waiting >= limits.waitingPerAddress) return "address";
    if (this.#shares.inAll("waiting") >= limits.waiting && !this.#evictFor(address)) return "all";
    this.#shares.add(work, "waiting");
    this.#shedFor(address);
    this.#checkLater();
    return undefined;
  }

  /** Removes waiting work from the queue, without calling `shed`. */
  withdraw(work: Work): void {
    this.#shares.remove(work, "waiting");
  }

  /** Applies rule 5. @returns Whether work was shed from the queue. */
  #evictFor(address: string): boolean {
    const oldest = this.#shares.oldestOfLargest("waiting");
    if (!oldest) return false;
    const [largest, own] = [this.#shares.of(oldest.address), this.#shares.of(address)];
    if (own.amounts.waiting > 0 && !isLargerByTwo("waiting", largest, own)) return false;
    this.withdraw(oldest);
    oldest.shed();
    return true;
  }

  /** Applies rules 3 and 4. @returns Whether work has lost its turn to this address. */
  #shedFor(address: string): boolean {
    const { underWay, underWayPerAddress, timeLimit } = this.#limits();
    const own = this.#shares.of(address);
    const before = this.#underWay.size;
    if (before < underWay || own.amounts.underWay >= underWayPerAddress) return false;
    const oldest = this.#oldestOfLargest(own) ?? this.#overdue(own, timeLimit);
    if (!oldest) return false;
    this.#end(oldest);
    oldest.shed();
    // As many as before, even if that exceeds a lowered bound: one turn is replaced, and the others are kept.
    this.#fill({ ...this.#limits(), underWay: before });
    return true;
  }

  #oldestOfLargest(own: QueueShare): Work | undefined {
    const shareOf = ({ address }: Work) => this.#shares.of(address);
    return foremost(
      this.#underWay.keys(),
      (one, other) => isLarger("underWay", shareOf(one), shareOf(other)),
      (work) => isLargerByTwo("underWay", shareOf(work), own),
    );
  }

  #overdue(own: QueueShare, timeLimit: number): Work | undefined {
    const [[oldest, since] = []] = this.#underWay;
    const isOverdue = since !== undefined && this.#loop.clock() - since >= timeLimit;
    return own.amounts.underWay === 0 && isOverdue ? oldest : undefined;
  }

  /** While work waits, checks from time to time whether other work exceeds its time limit or a limit was raised. */
  #checkLater(): void {
    if (this.#willCheck) return;
    this.#willCheck = true;
    this.#loop.after(Math.min(longestCheckMilliseconds, this.#limits().timeLimit / 2), () => {
      this.#willCheck = false;
      this.#next();
      if (this.#shares.inAll("waiting") > 0) this.#checkLater();
    });
  }

  #hasPermit({ underWay, inOneTick }: FairLimits): boolean {
    return this.#underWay.size < underWay && this.#begunInTick.length < inOneTick.all;
  }

  #begin(work: Work): void {
    const { address } = work;
    if (this.#begunInTick.length === 0) this.#loop.afterTick(() => this.#endTick());
    this.#begunInTick.push(address);
    this.#shares.count(address, "begunInTick", 1);
    this.#shares.count(address, "underWay", 1);
    this.#underWay.set(work, this.#loop.clock());
    work.begin(() => {
      if (this.#end(work)) this.#fill();
    });
  }

  /** Ends the turn of work. @returns Whether it had one. */
  #end(work: Work): boolean {
    const wasUnderWay = this.#underWay.delete(work);
    if (wasUnderWay) this.#shares.count(work.address, "underWay", -1);
    return wasUnderWay;
  }

  #endTick(): void {
    for (const address of this.#begunInTick.splice(0))
      this.#shares.count(address, "begunInTick", -1);
    this.#next();
  }

  /**
   * Fills free turns, then applies rule 3 to the work that still waits. Work that arrived after rule 6 had stopped this
   * tick's beginnings may be in a smaller share than work under way.
   */
  #next(): void {
    this.#fill();
    for (let next = this.#smallest(); next && this.#shedFor(next.address); )
      next = this.#smallest();
  }

  /** Begins waiting work while turns are free (rule 1). Work that ends in its `begin` calls this again in the same tick. */
  #fill(limits: FairLimits = this.#limits()): void {
    while (this.#hasPermit(limits)) {
      const [work] = this.#smallest()?.members ?? [];
      if (!work) return;
      this.withdraw(work);
      this.#shares.moveBack(work.address);
      this.#begin(work);
    }
  }

  /** The smallest share with work that waits and may begin. */
  #smallest(): QueueShare | undefined {
    if (this.#shares.inAll("waiting") === 0) return undefined;
    const limits = this.#limits();
    const hasNext = (share: QueueShare) => share.members.size > 0 && hasTurn(share, limits);
    // A shortcut: in a flood from many networks, one with nothing under way is near the front, so few shares are examined.
    const idle = first(
      this.#shares.all(),
      (share) => share.network.amounts.underWay === 0 && hasNext(share),
    );
    if (idle) return idle;
    const isSmaller = (one: QueueShare, other: QueueShare) => isLarger("underWay", other, one);
    return foremost(this.#shares.all(), isSmaller, hasNext);
  }
}

/** Whether rules 2 and 6 allow another turn to an address. */
function hasTurn(
  { network, amounts }: QueueShare,
  { underWayPerAddress: most, inOneTick }: FairLimits,
): boolean {
  if (amounts.begunInTick >= inOneTick.address) return false;
  if (!CallerAddress.isBehindGateway(network.prefix)) return amounts.underWay < most;
  return network.amounts.underWay < most && amounts.underWay < most / partsOfGateway;
}
