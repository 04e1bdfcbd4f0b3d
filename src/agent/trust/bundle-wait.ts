import { retryAt } from "../identity/renewal-plan.ts";

/** As long as what stands between the agent and the CA may leave a connection without a word. */
const longestSeconds = 300;

/** Shorter waits are not worth their connections, and a shorter answer has not waited. */
const shortestSeconds = 5;

/** An answer of an endpoint that holds its answers until the bundle is another. */
interface HeldAnswer {
  /** How long it said that it would hold it. */
  readonly grantedSeconds: number;
  readonly heldSeconds: number;
  /** Whether it brought another bundle: then it came when it should. */
  readonly isNews: boolean;
}

/**
 * How long a bundle endpoint is asked to hold its answer (RFC 7240 §4.3), so that a change is heard of
 * when it happens. What lies between may allow less than the endpoint: a wait that was cut is asked
 * for half as long, and then for a little more each time that it was not.
 */
export class BundleWait {
  readonly #longestSeconds: number;
  #seconds: number;
  #grantedSeconds: number;
  #early = 0;

  constructor(longestRefreshSeconds: number) {
    this.#longestSeconds = Math.min(longestSeconds, longestRefreshSeconds);
    this.#seconds = this.#longestSeconds;
    this.#grantedSeconds = this.#longestSeconds;
  }

  /** Whole seconds; 0 for no wait. */
  get askedSeconds(): number {
    return Math.floor(this.#seconds);
  }

  /** How long the next answer may well take. */
  get expectedSeconds(): number {
    return Math.min(this.askedSeconds, this.#grantedSeconds);
  }

  /** @returns When to ask again: soon, but ever later where answers come without having been held. */
  answered({ grantedSeconds, heldSeconds, isNews }: HeldAnswer, random: number, now: Date): Date {
    this.#grantedSeconds = grantedSeconds;
    const isHeld = heldSeconds >= Math.min(shortestSeconds, grantedSeconds / 2);
    this.#early = isHeld || isNews ? 0 : this.#early + 1;
    if (isHeld) this.#seconds = Math.min(this.#longestSeconds, this.#seconds * 1.01);
    return retryAt(Math.max(1, this.#early), random, now);
  }

  /** Learns that there was no answer after so long. */
  cut(heldSeconds: number): void {
    if (heldSeconds < shortestSeconds) return;
    const half = Math.min(heldSeconds, this.#seconds) / 2;
    this.#seconds = Math.min(this.#longestSeconds, Math.max(shortestSeconds, half));
  }
}
