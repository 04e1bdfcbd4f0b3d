import { Backoff } from "../../../foundation/backoff.ts";

/** The longest time that proxies on the way leave a connection idle. */
const longestIdleSeconds = 300;

/** A shorter wait is not worth a connection, and an answer that came sooner was not held. */
const shortestSeconds = 5;

/** An answer of an endpoint that holds its answers until the bundle changes. */
interface HeldAnswer {
  /** How long the endpoint said that it holds an answer. */
  readonly grantedSeconds: number;
  readonly heldSeconds: number;
  /** Whether the answer has a new bundle, which ends a wait early. */
  readonly isChanged: boolean;
}

/**
 * How long a bundle endpoint is asked to hold its answer (RFC 7240 §4.3). A proxy on the way may allow less than the
 * endpoint. After a proxy cut a wait, the next is half as long; each held answer lengthens it a little.
 */
export class LongPollWait {
  readonly #longestSeconds: number;
  #seconds: number;
  #grantedSeconds: number;
  #earlyAnswers = 0;

  /** @param longestSeconds At most 300 are used. */
  constructor(longestSeconds: number) {
    this.#longestSeconds = Math.min(longestIdleSeconds, longestSeconds);
    this.#seconds = this.#longestSeconds;
    this.#grantedSeconds = this.#longestSeconds;
  }

  /** In whole seconds. 0 asks for no wait. */
  get requestedSeconds(): number {
    return Math.floor(this.#seconds);
  }

  /** The longest time that the next answer may take. */
  get expectedSeconds(): number {
    return Math.min(this.requestedSeconds, this.#grantedSeconds);
  }

  /** Records an answer. @returns The time of the next request: later and later while answers are not held. */
  answered(
    { grantedSeconds, heldSeconds, isChanged }: HeldAnswer,
    random: number,
    now: Date,
  ): Date {
    this.#grantedSeconds = grantedSeconds;
    const isHeld = heldSeconds >= Math.min(shortestSeconds, grantedSeconds / 2);
    this.#earlyAnswers = isHeld || isChanged ? 0 : this.#earlyAnswers + 1;
    if (isHeld) this.#seconds = Math.min(this.#longestSeconds, this.#seconds * 1.01);
    const pause = Backoff.milliseconds(Backoff.usual.mesh, Math.max(1, this.#earlyAnswers), random);
    return new Date(now.getTime() + pause);
  }

  /** Records that a connection ended after `heldSeconds` without an answer. Less than five change nothing. */
  cut(heldSeconds: number): void {
    if (heldSeconds < shortestSeconds) return;
    const half = Math.min(heldSeconds, this.#seconds) / 2;
    this.#seconds = Math.min(this.#longestSeconds, Math.max(shortestSeconds, half));
  }
}
