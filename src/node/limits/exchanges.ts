import { type FairLimits, FairQueue } from "./fair-queue.ts";
import { type Limit, type LimitReached, type Limits, turnTimeLimitOf } from "./limits.ts";
import { isLargerByTwo, RankedShares } from "./ranked-shares.ts";
import { Turn } from "./turn.ts";

/** A request and its response, and whether their peer delays them. */
export interface Exchange {
  readonly address: string;
  /** Whether a part of the request has yet to arrive. */
  readonly isReceiving: () => boolean;
  /** Octets of the response that the peer has not read yet. */
  readonly unsentOctets: () => number;
  readonly abort: () => void;
  /**
   * Refuses the exchange so that its caller may retry.
   *
   * @param isUntouched Whether no work on it has begun (RFC 9113 §8.7).
   */
  readonly refuse: (isUntouched: boolean) => void;
  /** Whether the caller no longer waits for the answer. */
  readonly isGone: () => boolean;
}

/** The permit of an admitted exchange. */
export interface Permit {
  /**
   * Counts memory that the request and its response take until the permit is released; a negative number of octets
   * gives some back. Beyond the bound this exchange, or one of a larger share, is refused at once.
   */
  readonly reserve: (octets: number) => void;
  /**
   * Runs the work that makes the response once the fair queue gives it a turn. The work must not include waiting for
   * the request's body, nor for the caller to read the response. A long poll yields its turn when it begins to wait,
   * because long polls have a limit of their own.
   *
   * @returns `undefined` if the caller has gone, or was refused because too many requests wait.
   */
  readonly inTurn: <Answer>(
    work: (yieldTurn: () => void) => Promise<Answer>,
  ) => Promise<Answer | undefined>;
  readonly release: () => void;
}

interface Progress {
  readonly exchange: Exchange;
  readonly address: string;
  since: number;
  unsent: number;
  octets: number;
  hasBegun: boolean;
  readonly turn: Turn;
}

const newProgress = (exchange: Exchange, since: number, turns: FairQueue): Progress => ({
  exchange,
  address: exchange.address,
  since,
  unsent: 0,
  octets: 0,
  hasBegun: false,
  turn: new Turn(turns, exchange.address),
});

const mebibyte = 1024 * 1024;

const inOneTick = { all: 32, address: 4 };

const turnsOf = (limits: Limits): FairLimits => ({
  underWay: limits.requests_at_work,
  underWayPerAddress: limits.requests_at_work_per_address,
  waiting: limits.streams,
  waitingPerAddress: limits.streams,
  inOneTick: inOneTick,
  timeLimit: turnTimeLimitOf(limits.progress_timeout),
});

/**
 * The exchanges under way of one server. They are bounded in number and in octets, and each must make progress. At a
 * bound, the largest share loses its oldest exchange without a turn. That is the share of the address with most
 * exchanges in the network with most.
 */
export class Exchanges {
  readonly #limits: Limits;
  readonly #reached: LimitReached;
  readonly #clock: () => number;
  readonly #isShort: () => boolean;
  readonly #shares = new RankedShares<Progress, "requests" | "octets">({ requests: 0, octets: 0 });
  readonly #turns: FairQueue;

  /** @param isShort Whether the process is so short of memory that it accepts no more work. */
  constructor(limits: Limits, reached: LimitReached, clock: () => number, isShort: () => boolean) {
    this.#limits = limits;
    this.#reached = reached;
    this.#clock = clock;
    this.#isShort = isShort;
    this.#turns = new FairQueue(() => turnsOf(limits));
  }

  get count(): number {
    return this.#shares.inAll("requests");
  }

  /** Admits an exchange. @returns `undefined` if it was refused: too many are under way, or memory is short. */
  begin(exchange: Exchange): Permit | undefined {
    if (this.#isShort()) {
      this.#refuse(exchange, "memory", true);
      return undefined;
    }
    const { address } = exchange;
    if (this.count >= this.#limits.streams && !this.#evictFor(address)) {
      this.#refuse(exchange, "streams", true);
      return undefined;
    }
    const progress = newProgress(exchange, this.#clock(), this.#turns);
    this.#shares.add(progress, "requests");
    return {
      reserve: (octets) => this.#reserve(progress, octets),
      inTurn: (work) => this.#inTurn(progress, work),
      release: () => this.#remove(progress),
    };
  }

  async #inTurn<Answer>(
    progress: Progress,
    work: (yieldTurn: () => void) => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const { exchange, turn } = progress;
    if (exchange.isGone()) return undefined;
    if (!(await turn.take())) {
      if (!exchange.isGone()) this.#drop(progress, "streams");
      return undefined;
    }
    try {
      if (exchange.isGone()) return undefined;
      // Asked again, because memory may have become short while the request waited.
      if (this.#isShort()) {
        this.#drop(progress, "memory");
        return undefined;
      }
      progress.hasBegun = true;
      return await turn.run(() => work(() => void turn.yield()));
    } finally {
      turn.end();
      turn.yield();
    }
  }

  #reserve(progress: Progress, octets: number): void {
    if (!this.#has(progress)) return;
    progress.octets += octets;
    this.#shares.count(progress.address, "octets", octets);
    while (this.#shares.inAll("octets") > this.#limits.request_memory * mebibyte) {
      const mayGo = ({ turn, octets }: Progress) => octets > 0 && !turn.isHeld;
      const oldest = this.#shares.oldestOfLargest("octets", mayGo) ?? progress;
      this.#drop(oldest, "request_memory");
      if (oldest === progress) return;
    }
  }

  /** Whether an exchange is still counted. */
  #has(progress: Progress): boolean {
    return this.#shares.of(progress.address).members.has(progress);
  }

  /**
   * Refuses an exchange of the largest share in favour of one of this address, unless both shares are equal: callers of
   * several networks would otherwise replace each other's exchanges for ever, and none would be answered.
   *
   * @returns Whether it has refused one.
   */
  #evictFor(address: string): boolean {
    const oldest = this.#shares.oldestOfLargest("requests", ({ turn }) => !turn.isHeld);
    if (!oldest) return false;
    const [largest, own] = [this.#shares.of(oldest.address), this.#shares.of(address)];
    if (own.amounts.requests > 0 && !isLargerByTwo("requests", largest, own)) return false;
    this.#drop(oldest, "streams");
    return true;
  }

  #drop(progress: Progress, limit: Limit): void {
    this.#remove(progress);
    this.#refuse(progress.exchange, limit, !progress.hasBegun);
  }

  #remove(progress: Progress): void {
    if (this.#has(progress)) {
      this.#shares.count(progress.address, "octets", -progress.octets);
      this.#shares.remove(progress, "requests");
    }
    progress.turn.end();
  }

  #refuse(exchange: Exchange, limit: Limit, isUntouched: boolean): void {
    this.#reached(limit);
    exchange.refuse(isUntouched);
  }

  /** Aborts exchanges that their peer delays: a request that does not arrive, a response that it does not read. */
  sweep(): void {
    const now = this.#clock();
    const all = [...this.#shares.all()].flatMap(({ members }) => [...members]);
    for (const progress of all) {
      if (now - progress.since < this.#limits.progress_timeout) continue;
      if (this.#isHeldUp(progress)) {
        this.#reached("progress_timeout");
        this.#remove(progress);
        progress.exchange.abort();
      } else progress.since = now;
    }
  }

  /** Whether the peer delays an exchange, and not this process, which may still be working on the answer. */
  #isHeldUp(progress: Progress): boolean {
    const { exchange, unsent: before } = progress;
    const unsent = exchange.unsentOctets();
    progress.unsent = unsent;
    return exchange.isReceiving() || (unsent > 0 && unsent >= before && before > 0);
  }
}
