import { isSetBack } from "../../foundation/caches.ts";
import { addSeconds, earlier, later } from "../../pki/x509/validity.ts";

/** How often a store is loaded, and for how long a load serves. */
export interface LoadTimes {
  /** The time between two reads of the store: a part of the propagation interval. */
  readonly refreshSeconds: number;
  /**
   * How long loaded authorities serve while the store cannot be read: at most the propagation interval,
   * because schedules rely on no reader being further behind.
   */
  readonly surviveOutageSeconds: number;
}

/** A load of the store. */
interface Load {
  /** The number of the load, counted from 1 in the order in which loads begin. */
  readonly number: number;
  /** The time of the latest request when it began. */
  readonly at: Date;
}

/** The time until the next read of a store, if it could not be read or has no authority that signs. */
const retrySeconds = 2;
const shortestRetrySeconds = 0.25;

/** A load that takes longer is taken for lost: its request was dropped, or the store hangs. */
export const longestLoadSeconds = 10;

const never = new Date(0);

/**
 * Decides when a store is due for a load, and whether the load in use still serves. It knows the time from the requests:
 * the latest, unless the clock was set back.
 */
export class LoadClock {
  readonly #times: LoadTimes;
  #latest = never;
  #due = never;
  #last: Load = { number: 0, at: never };
  #inUse: Load = { number: 0, at: never };

  constructor(times: LoadTimes) {
    this.#times = times;
  }

  /** The number of the load that began last. */
  get begun(): number {
    return this.#last.number;
  }

  /** The load whose records are used; before the first, number 0 of the year 1970. */
  get inUse(): Load {
    return this.#inUse;
  }

  /** Whether the store is due for a load at the time of the latest request. */
  get isDue(): boolean {
    return this.#latest.getTime() >= this.#due.getTime();
  }

  /** Takes note of the time of a request. */
  follow(now: Date): void {
    const wasSetBack = isSetBack(this.#latest, now);
    this.#latest = wasSetBack ? now : later(this.#latest, now);
    if (wasSetBack) this.#due = now;
  }

  /** Whether the load in use serves a request of this time. A load that is too old, or too far in the future, does not. */
  serves(now: Date): boolean {
    const { at } = this.#inUse;
    return this.#isInOutage(at, earlier(now, this.#latest)) && this.#isInOutage(this.#latest, at);
  }

  /** Begins a load. While the load in use serves, no other load is due until this one is taken for lost. */
  begin(): Load {
    this.#last = { number: this.begun + 1, at: this.#latest };
    this.#awaitLast();
    return this.#last;
  }

  /** Ends a load. @returns Whether it is in use now; `false` if a later load was faster and is in use already. */
  use({ number, at }: Load): boolean {
    if (number < this.#inUse.number) return false;
    // The clock may have been set back during the load.
    this.#inUse = { number, at: earlier(at, this.#latest) };
    if (number === this.begun) this.#due = addSeconds(this.#inUse.at, this.#times.refreshSeconds);
    else if (this.isDue) this.#awaitLast();
    return true;
  }

  /** Makes the store due again soon, for a load in use that has no authority that signs. */
  refreshSoon(): void {
    const seconds = Math.min(retrySeconds, this.#times.refreshSeconds);
    this.#due = addSeconds(this.#inUse.at, seconds);
  }

  /** Makes the store due again soon after a failed load, unless another one has begun since. */
  retry({ number, at }: Load): void {
    // A retry comes no later than the usual refresh would.
    const seconds = Math.max(
      shortestRetrySeconds,
      Math.min(retrySeconds, this.#times.refreshSeconds),
    );
    if (number === this.begun) this.#due = addSeconds(earlier(at, this.#latest), seconds);
  }

  #awaitLast(): void {
    const { refreshSeconds, surviveOutageSeconds } = this.#times;
    const begun = earlier(this.#last.at, this.#latest);
    const next = addSeconds(begun, Math.max(refreshSeconds, longestLoadSeconds));
    const servesUntil = addSeconds(this.#inUse.at, surviveOutageSeconds);
    if (this.serves(begun)) this.#due = earlier(next, servesUntil);
  }

  #isInOutage(from: Date, to: Date): boolean {
    return to.getTime() - from.getTime() <= 1000 * this.#times.surviveOutageSeconds;
  }
}
