/** The most works that run at once, and that wait: in all, and of one address. */
export interface FairLimits {
  readonly atWork: number;
  readonly atWorkPerAddress: number;
  readonly waiting: number;
  readonly waitingPerAddress: number;
}

/** Begins a piece of work, which calls `done` when it has ended. */
export type Work = (done: () => void) => void;

interface Lane {
  readonly waiting: Work[];
  atWork: number;
  begunInPass: number;
}

/** The most works that begin in one pass of the event loop, in all and of one address. */
const inOnePass = { all: 32, address: 4 };

/**
 * Begins the work of callers, address by address in turn. An address whose bound is reached waits for its
 * own work to end, so that its flood delays no other address. Few works begin in one pass of the event
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

  /** Begins the work now or later. @returns The limit that is reached, if the work never begins. */
  take(address: string, work: Work): "all" | "address" | undefined {
    const { waiting, waitingPerAddress } = this.#limits;
    const lane = this.#lanes.get(address) ?? { waiting: [], atWork: 0, begunInPass: 0 };
    if (this.#hasTurn(lane)) {
      this.#lanes.set(address, lane);
      this.#begin(address, lane, work);
      return undefined;
    }
    if (lane.waiting.length >= waitingPerAddress) return "address";
    if (this.#waiting >= waiting) return "all";
    this.#lanes.set(address, lane);
    lane.waiting.push(work);
    this.#waiting++;
    return undefined;
  }

  /** Drops all waiting work. */
  clear(): void {
    for (const lane of this.#lanes.values()) lane.waiting.length = 0;
    this.#waiting = 0;
  }

  #hasTurn({ atWork, begunInPass }: Lane): boolean {
    const isWithin = atWork < this.#limits.atWorkPerAddress && begunInPass < inOnePass.address;
    return isWithin && this.#hasRoom();
  }

  #hasRoom(): boolean {
    return this.#atWork < this.#limits.atWork && this.#begunInPass < inOnePass.all;
  }

  #begin(address: string, lane: Lane, work: Work): void {
    if (this.#begunInPass === 0) this.#afterPass(() => this.#endPass());
    this.#begunInPass++;
    lane.begunInPass++;
    this.#atWork++;
    lane.atWork++;
    let isDone = false;
    work(() => {
      if (isDone) return;
      isDone = true;
      this.#atWork--;
      lane.atWork--;
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
  }

  #forgetIdle(address: string, { atWork, begunInPass, waiting }: Lane): void {
    if (atWork === 0 && begunInPass === 0 && waiting.length === 0) this.#lanes.delete(address);
  }

  /** An address goes to the end after its turn. Work that ends while it begins leads here again, within one pass. */
  #next(): void {
    for (let hasBegun = this.#waiting > 0; hasBegun && this.#hasRoom(); ) {
      hasBegun = false;
      for (const [address, lane] of [...this.#lanes]) {
        if (!this.#hasTurn(lane)) continue;
        const work = lane.waiting.shift();
        if (!work) continue;
        this.#waiting--;
        this.#lanes.delete(address);
        this.#lanes.set(address, lane);
        this.#begin(address, lane, work);
        hasBegun = true;
      }
    }
  }
}
