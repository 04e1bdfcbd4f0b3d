/** How many may be at work, and how many may wait, in all and of one address. */
export interface FairLimits {
  readonly atWork: number;
  readonly atWorkPerAddress: number;
  readonly waiting: number;
  readonly waitingPerAddress: number;
}

/** Begins; it calls `done` when it has ended. */
export type Work = (done: () => void) => void;

interface Lane {
  readonly waiting: Work[];
  atWork: number;
}

/**
 * Work for callers, begun turn by turn: an address has only so much of it under way and then waits for
 * its own, so that a flood from one address keeps nobody at another from a turn.
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

  /** Begins the work now or later. @returns Whose limit is reached, where it never begins. */
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

  /** Forgets all that waits. */
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

  /** An address that has had a turn goes to the end. Work may be done as soon as it begins. */
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
