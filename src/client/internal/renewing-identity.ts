import { isSetBack } from "../../foundation/caches.ts";
import { InterruptibleSleep } from "../../foundation/interruptible-sleep.ts";
import type { Pause } from "../../foundation/pause.ts";
import { RenewalPlan } from "../../foundation/renewal-plan.ts";
import { ClientError } from "./client-error.ts";
import type { TrustBundle } from "./trust-bundle.ts";
import { isTrustedBy, type X509Svid } from "./x509-svid.ts";

/** How a program learns of changes. */
export interface RenewalOptions {
  /**
   * Called with the first certificate, and when the certificate or the trust bundle has changed. With it, timers renew
   * in time. Without it, `current()` does, which suits a Worker: it has no timers between its requests.
   */
  readonly onChange?: (svid: X509Svid) => unknown;
  /** Called with each failure, after which another attempt follows, and with what `onChange` throws. */
  readonly onError?: (error: unknown) => void;
}

/**
 * An X509-SVID that is renewed after half of its life, and at once when its root leaves the trust bundle. While
 * renewal fails, the certificate serves until it expires.
 */
export interface RenewingIdentity extends Disposable {
  /**
   * The certificate, which has not expired.
   *
   * @throws At once without a certificate, while no attempt is due or after {@link close}: the error of the last
   *   attempt, or ClientError `unavailable` if that did not fail.
   */
  current(): Promise<X509Svid>;
  /** Ends the renewal. `current()` returns the certificate until it expires. */
  close(): void;
}

/** What a client takes from its platform. Tests have their own. */
export interface ClientPorts {
  readonly clock: () => Date;
  /** At least 0 and less than 1. */
  readonly random: () => number;
  readonly pause: Pause;
}

interface RenewalPorts extends ClientPorts {
  readonly issue: () => Promise<X509Svid>;
  readonly bundle: () => Promise<TrustBundle>;
}

/** As in Istio, a certificate is renewed when half of its life is left, give or take one hundredth. */
const policy = { graceRatio: 0.5, jitter: 0.01 };

/** How long one request of a Worker renews alone. Then another may, because workerd may have ended the first. */
const attemptMilliseconds = 30_000;

/** Gets an X509-SVID and keeps it current, by timers if there is an `onChange`. */
export function renewIdentity(ports: RenewalPorts, options: RenewalOptions): RenewingIdentity {
  const renewal = new Renewal(ports, options);
  if (options.onChange) void renewal.run();
  const close = () => renewal.close();
  return { current: () => renewal.current(), close, [Symbol.dispose]: close };
}

class Renewal {
  readonly #ports: RenewalPorts;
  readonly #options: RenewalOptions;
  readonly #closing = new AbortController();
  #svid: X509Svid | undefined;
  #renewsAt = new Date(0);
  #attemptedAt = new Date(0);
  #nextAttempt = new Date(0);
  #failures = 0;
  #lastError: unknown;
  /** The current or last attempt of the timers; `undefined` without timers. */
  #attempt: Promise<void> | undefined;

  constructor(ports: RenewalPorts, options: RenewalOptions) {
    this.#ports = ports;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { clock, pause } = this.#ports;
    const { signal } = this.#closing;
    const sleep = new InterruptibleSleep(clock, pause);
    while (!signal.aborted) {
      this.#attempt = this.#refresh();
      await this.#attempt;
      await sleep.until(this.#nextAttempt, signal, () => isSetBack(this.#attemptedAt, clock()));
    }
  }

  async current(): Promise<X509Svid> {
    // Requests of a Worker do not wait for each other, because workerd may end one of them at any time.
    if (this.#attempt) await (this.#unexpired ?? this.#attempt);
    else if (this.#isDue) await this.#refresh();
    const found = this.#unexpired;
    if (found) return found;
    throw this.#lastError ?? new ClientError("unavailable", "the certificate has expired");
  }

  close(): void {
    this.#closing.abort();
  }

  get #unexpired(): X509Svid | undefined {
    return this.#svid && this.#ports.clock() < this.#svid.notAfter ? this.#svid : undefined;
  }

  get #isDue(): boolean {
    if (this.#closing.signal.aborted) return false;
    const now = this.#ports.clock();
    const isTime = now >= this.#nextAttempt || isSetBack(this.#attemptedAt, now);
    return isTime || (!this.#unexpired && this.#lastError === undefined);
  }

  /** Makes one attempt. It never rejects: `onError` gets the failure, and `current()` throws it. */
  async #refresh(): Promise<void> {
    this.#attemptedAt = this.#ports.clock();
    this.#nextAttempt = new Date(this.#attemptedAt.getTime() + attemptMilliseconds);
    try {
      const found = await this.#next();
      if (!this.#closing.signal.aborted) this.#install(found);
    } catch (error) {
      this.#postpone(error);
      this.#options.onError?.(error);
    }
  }

  /** Makes the next X509-SVID: the same certificate, the same with another trust bundle, or a new one. */
  async #next(): Promise<X509Svid> {
    const { issue, bundle, clock } = this.#ports;
    const before = this.#svid;
    if (!before || clock() >= this.#renewsAt || isSetBack(before.obtainedAt, clock()))
      return issue();
    const trustBundle = await bundle();
    // Replicas of a CA learn of a change one after the other, so that an older bundle may follow a newer one.
    if (trustBundle.sequence < before.trustBundle.sequence) return before;
    if (!(await isTrustedBy(before, trustBundle, clock()))) return issue();
    const isSame = JSON.stringify(trustBundle) === JSON.stringify(before.trustBundle);
    return isSame ? before : { ...before, trustBundle };
  }

  #install(found: X509Svid): void {
    const { clock, random } = this.#ports;
    const { onChange, onError } = this.#options;
    const before = this.#svid;
    if (found.certChain !== before?.certChain)
      this.#renewsAt = RenewalPlan.at(found, policy, random());
    this.#svid = found;
    [this.#failures, this.#lastError] = [0, undefined];
    const refreshesAt = clock().getTime() + 1000 * found.trustBundle.refreshHintSeconds;
    this.#nextAttempt = new Date(Math.min(this.#renewsAt.getTime(), refreshesAt));
    if (found !== before) Promise.resolve(found).then(onChange).catch(onError);
  }

  #postpone(error: unknown): void {
    const { clock, random } = this.#ports;
    [this.#failures, this.#lastError] = [this.#failures + 1, error];
    const seconds = error instanceof ClientError ? error.retryAfterSeconds : 0;
    const requested = { seconds, notAfter: this.#svid?.notAfter };
    this.#nextAttempt = RenewalPlan.retryAt(this.#failures, random(), clock(), requested);
  }
}
