import { FairQueue } from "./fair-queue.ts";
import type { LimitReached, Limits } from "./limits.ts";

/** A request and its answer, as far as their peer can hold them up. */
export interface Exchange {
  /** Whether the request has not arrived whole yet. */
  readonly isReceiving: () => boolean;
  /** Octets of the answer that the peer has not taken yet. */
  readonly unsentOctets: () => number;
  readonly abort: () => void;
  /** Whether nobody waits for the answer any more. */
  readonly isGone: () => boolean;
}

interface Progress {
  readonly exchange: Exchange;
  since: number;
  unsent: number;
}

/** The exchanges under way of one server: bounded in number, and each held to get on. */
export class Exchanges {
  readonly #limits: Limits;
  readonly #reached: LimitReached;
  readonly #clock: () => number;
  readonly #isShort: () => boolean;
  readonly #underWay = new Set<Progress>();
  readonly #turns: FairQueue;

  /** @param isShort Whether the process holds so much memory that it takes on no more work. */
  constructor(limits: Limits, reached: LimitReached, clock: () => number, isShort: () => boolean) {
    this.#limits = limits;
    this.#reached = reached;
    this.#clock = clock;
    this.#isShort = isShort;
    const { streams, requests_at_work, requests_at_work_per_address } = limits;
    this.#turns = new FairQueue({
      atWork: requests_at_work,
      atWorkPerAddress: requests_at_work_per_address,
      waiting: streams,
      waitingPerAddress: streams,
    });
  }

  get count(): number {
    return this.#underWay.size;
  }

  /** @returns How to say that it is over; `undefined` where no more work is taken on. */
  begin(exchange: Exchange): (() => void) | undefined {
    const limit = this.#isShort()
      ? "memory"
      : this.#underWay.size >= this.#limits.streams
        ? "streams"
        : undefined;
    if (limit) {
      this.#reached(limit);
      return undefined;
    }
    const progress = { exchange, since: this.#clock(), unsent: 0 };
    this.#underWay.add(progress);
    return () => void this.#underWay.delete(progress);
  }

  /**
   * Answers a request when it is its address's turn, or not at all where nobody waits any more. A long poll
   * takes no turn: it has places of its own.
   */
  answer(
    address: string,
    { isGone }: Exchange,
    isLongPoll: boolean,
    work: () => Promise<void>,
  ): void {
    if (isLongPoll) {
      void work();
      return;
    }
    this.#turns.take(address, (done) => {
      if (isGone()) done();
      else void work().finally(done);
    });
  }

  /** Ends what its peer holds up: a request that does not arrive, an answer that is not taken. */
  sweep(): void {
    const now = this.#clock();
    for (const progress of this.#underWay) {
      if (now - progress.since < this.#limits.progress_timeout) continue;
      if (this.#isHeldUp(progress)) {
        this.#reached("progress_timeout");
        this.#underWay.delete(progress);
        progress.exchange.abort();
      } else progress.since = now;
    }
  }

  /** While the answer is being made, the peer holds nothing up. */
  #isHeldUp(progress: Progress): boolean {
    const { exchange, unsent: before } = progress;
    const unsent = exchange.unsentOctets();
    progress.unsent = unsent;
    return exchange.isReceiving() || (unsent > 0 && unsent >= before && before > 0);
  }
}
