import { FairQueue } from "./fair-queue.ts";
import type { LimitReached, Limits } from "./limits.ts";

/** A request and its answer, with the parts that their peer can delay. */
export interface Exchange {
  /** Whether a part of the request has yet to arrive. */
  readonly isReceiving: () => boolean;
  /** Octets of the answer that the peer has not read yet. */
  readonly unsentOctets: () => number;
  readonly abort: () => void;
  /** Whether the caller no longer waits for the answer. */
  readonly isGone: () => boolean;
}

interface Progress {
  readonly exchange: Exchange;
  since: number;
  unsent: number;
}

/** The exchanges under way of one server. They are bounded in number, and each must make progress. */
export class Exchanges {
  readonly #limits: Limits;
  readonly #reached: LimitReached;
  readonly #clock: () => number;
  readonly #isShort: () => boolean;
  readonly #underWay = new Set<Progress>();
  readonly #turns: FairQueue;
  #begunAt: number;

  /** @param isShort Whether the process is so short of memory that it accepts no more work. */
  constructor(limits: Limits, reached: LimitReached, clock: () => number, isShort: () => boolean) {
    this.#limits = limits;
    this.#reached = reached;
    this.#clock = clock;
    this.#isShort = isShort;
    this.#begunAt = clock();
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

  /** When the last exchange began, or asked to. */
  get begunAt(): number {
    return this.#begunAt;
  }

  /** Counts an exchange. @returns A function that ends the count; `undefined` if there is no room. */
  begin(exchange: Exchange): (() => void) | undefined {
    this.#begunAt = this.#clock();
    const limit = this.#isShort()
      ? "memory"
      : this.#underWay.size >= this.#limits.streams
        ? "streams"
        : undefined;
    if (limit) {
      this.#reached(limit);
      return undefined;
    }
    const progress = { exchange, since: this.#begunAt, unsent: 0 };
    this.#underWay.add(progress);
    return () => void this.#underWay.delete(progress);
  }

  /**
   * Answers a request when its address has a turn, unless the caller no longer waits. A long poll gives its
   * turn back at once, because long polls have a bound of their own.
   */
  answer(
    address: string,
    { isGone }: Exchange,
    isLongPoll: boolean,
    work: () => Promise<void>,
  ): void {
    this.#turns.take(address, (done) => {
      const answered = isGone() ? undefined : work();
      if (answered && !isLongPoll) void answered.finally(done);
      else done();
    });
  }

  /** Aborts exchanges that their peer delays: a request that does not arrive, an answer that it does not read. */
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

  /** The peer delays nothing while this process works on the answer. */
  #isHeldUp(progress: Progress): boolean {
    const { exchange, unsent: before } = progress;
    const unsent = exchange.unsentOctets();
    progress.unsent = unsent;
    return exchange.isReceiving() || (unsent > 0 && unsent >= before && before > 0);
  }
}
