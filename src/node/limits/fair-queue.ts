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
}

/**
 * Begins the work of callers, address by address in turn. An address whose bound is reached waits for its
 * own work to end, so that its flood delays no other address.
 */
export class FairQueue {
  readonly #limits: FairLimits;
  readonly #lanes = new Map<string, Lane>();
  #atWork = 0;
  #waiting = 0;
  #isBeginning = false;

  constructor(limits: FairLimits) {
    this.#limits = limits;
  }

  /** Begins the work now or later. @returns The limit that is reached, if the work never begins. */
  take(address: string, work: Work): "all" | "address" | undefined {
    const { waiting, waitingPerAddress } = this.#limits;
    const lane = this.#lanes.get(address) ?? { waiting: [], atWork: 0 };
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

  #hasTurn(lane: Lane): boolean {
    const { atWork, atWorkPerAddress } = this.#limits;
    return this.#atWork < atWork && lane.atWork < atWorkPerAddress;
  }

  #begin(address: string, lane: Lane, work: Work): void {
    this.#atWork++;
    lane.atWork++;
    let isDone = false;
    work(() => {
      if (isDone) return;
      isDone = true;
      this.#atWork--;
      lane.atWork--;
      if (lane.atWork === 0 && lane.waiting.length === 0) this.#lanes.delete(address);
      if (this.#waiting > 0) this.#next();
    });
  }

  /** An address goes to the end after its turn. Work may end while it begins, so this must not recur. */
  #next(): void {
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    for (let hasBegun = true; hasBegun; ) {
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
    this.#isBeginning = false;
  }
}
