/** The most works that run at once, and that wait: in all, and of one address. */
export interface FairLimits {
  readonly atWork: number;
  readonly atWorkPerAddress: number;
  readonly waiting: number;
  readonly waitingPerAddress: number;
}

/** Begins a piece of work, which calls `done` when it has ended. */
export type Work = (done: () => void) => void;

interface Piece {
  readonly work: Work;
  /** Ends the piece, whether it waits or is under way, for one of another address. */
  readonly giveWay: (() => void) | undefined;
}

interface Lane {
  readonly waiting: Piece[];
  readonly underWay: Set<Piece>;
  begunInPass: number;
}

/** The most works that begin in one pass of the event loop, in all and of one address. */
const inOnePass = { all: 32, address: 4 };

/**
 * Begins the work of callers, first that of the address with least under way. An address whose bound is reached
 * waits for its own work to end, so that its flood delays no other address. At the bound of all, work that can
 * give way does so: the oldest of the address with most, for an address with less. Few works begin in one pass of the event
 * loop, because the loop reads what other callers send only between two passes.
 */
export class FairQueue {
  readonly #limits: FairLimits;
  readonly #afterPass: (resume: () => void) => void;
  readonly #lanes = new Map<string, Lane>();
  #atWork = 0;
  #waiting = 0;
  #begunInPass = 0;

  /** @param afterPass Calls back once, after the event loop has read from every socket. */
  constructor(limits: FairLimits, afterPass: (resume: () => void) => void = setImmediate) {
    this.#limits = limits;
    this.#afterPass = afterPass;
  }

  /**
   * Begins the work now or later.
   *
   * @param giveWay Ends the work early, which then calls `done`.
   * @returns The limit that is reached, if the work never begins.
   */
  take(address: string, work: Work, giveWay?: () => void): "all" | "address" | undefined {
    const { waiting, waitingPerAddress } = this.#limits;
    const lane = this.#lanes.get(address) ?? { waiting: [], underWay: new Set(), begunInPass: 0 };
    const piece = { work, giveWay };
    if (this.#hasTurn(lane)) {
      this.#lanes.set(address, lane);
      this.#begin(address, lane, piece);
      return undefined;
    }
    if (lane.waiting.length >= waitingPerAddress) return "address";
    if (this.#waiting >= waiting && !this.#shortenWaiting(lane)) return "all";
    this.#lanes.set(address, lane);
    lane.waiting.push(piece);
    this.#waiting++;
    if (this.#atWork >= this.#limits.atWork) this.#shortenUnderWay(lane);
    return undefined;
  }

  /** @returns Whether a piece of an address with more has left the queue. */
  #shortenWaiting({ waiting }: Lane): boolean {
    const longest = this.#largest((lane) => lane.waiting.length);
    if (!longest || longest.waiting.length <= waiting.length + 1) return false;
    const [oldest] = longest.waiting;
    if (!oldest?.giveWay) return false;
    longest.waiting.shift();
    this.#waiting--;
    oldest.giveWay();
    return true;
  }

  #shortenUnderWay({ underWay }: Lane): void {
    const busiest = this.#largest((lane) => lane.underWay.size);
    if (!busiest || busiest.underWay.size <= underWay.size + 1) return;
    const [oldest] = busiest.underWay;
    oldest?.giveWay?.();
  }

  #largest(sizeOf: (lane: Lane) => number): Lane | undefined {
    let largest: Lane | undefined;
    for (const lane of this.#lanes.values()) {
      if (!largest || sizeOf(lane) > sizeOf(largest)) largest = lane;
    }
    return largest;
  }

  /** Drops all waiting work. */
  clear(): void {
    for (const lane of this.#lanes.values()) lane.waiting.length = 0;
    this.#waiting = 0;
  }

  #hasTurn({ underWay, begunInPass }: Lane): boolean {
    const isWithin =
      underWay.size < this.#limits.atWorkPerAddress && begunInPass < inOnePass.address;
    return isWithin && this.#hasRoom();
  }

  #hasRoom(): boolean {
    return this.#atWork < this.#limits.atWork && this.#begunInPass < inOnePass.all;
  }

  #begin(address: string, lane: Lane, piece: Piece): void {
    if (this.#begunInPass === 0) this.#afterPass(() => this.#endPass());
    this.#begunInPass++;
    lane.begunInPass++;
    this.#atWork++;
    lane.underWay.add(piece);
    piece.work(() => {
      if (!lane.underWay.delete(piece)) return;
      this.#atWork--;
      this.#forgetIdle(address, lane);
      this.#next();
    });
  }

  #endPass(): void {
    this.#begunInPass = 0;
    for (const [address, lane] of this.#lanes) {
      lane.begunInPass = 0;
      this.#forgetIdle(address, lane);
    }
    this.#next();
    // Work that came in one pass found no turn to take, although others had more.
    if (this.#atWork < this.#limits.atWork) return;
    for (const lane of [...this.#lanes.values()]) {
      if (lane.waiting.length > 0) this.#shortenUnderWay(lane);
    }
  }

  #forgetIdle(address: string, { underWay, begunInPass, waiting }: Lane): void {
    if (underWay.size === 0 && begunInPass === 0 && waiting.length === 0)
      this.#lanes.delete(address);
  }

  /** Of addresses with as much under way, one goes to the end after its turn. Work that ends while it begins leads here again, within one pass. */
  #next(): void {
    for (let hasBegun = this.#waiting > 0; hasBegun && this.#hasRoom(); ) {
      hasBegun = false;
      const byLoad = [...this.#lanes].sort(([, a], [, b]) => a.underWay.size - b.underWay.size);
      for (const [address, lane] of byLoad) {
        if (!this.#hasTurn(lane)) continue;
        const piece = lane.waiting.shift();
        if (!piece) continue;
        this.#waiting--;
        this.#lanes.delete(address);
        this.#lanes.set(address, lane);
        this.#begin(address, lane, piece);
        hasBegun = true;
      }
    }
  }
}
