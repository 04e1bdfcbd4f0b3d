import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { Issue } from "../issuance/certificate-client.ts";
import { IssuanceError } from "../issuance/issuance-error.ts";
import { Subscribers } from "../secrets/subscribers.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import { Alarm } from "./alarm.ts";
import { type RenewalPolicy, renewalAt, retryAt } from "./renewal-plan.ts";
import type { Issuance, IssuedSvid, X509Svid } from "./x509-svid.ts";

/** What keeping identities takes. */
export interface RefreshingPorts {
  readonly issue: Issue;
  readonly trust: TrustRoots;
  readonly policy: RenewalPolicy;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
  /** What an earlier run remembered, if it is still good. Never rejects. */
  readonly recall: (spiffeId: SpiffeId) => Promise<Issuance | undefined>;
  /** Told of each certificate. Never rejects. */
  readonly remember: (issuance: Issuance) => Promise<void>;
}

/** How an identity stands, for whoever operates the agent. */
export interface IdentityStatus {
  readonly spiffeId: SpiffeId;
  readonly notAfter: Date | undefined;
  readonly nextAttempt: Date;
  readonly issuer: string | undefined;
  readonly lastError: string | undefined;
}

/**
 * One identity with a certificate that is renewed in time. While it cannot be renewed, the one at hand
 * is kept and served until it expires, and no longer.
 */
export class RefreshingIdentity {
  readonly spiffeId: SpiffeId;
  readonly changes: Subscribers = new Subscribers();
  readonly #ports: RefreshingPorts;
  readonly #alarm: Alarm;
  readonly #ending = new AbortController();
  #issuance: IssuedSvid | undefined;
  #nextAttempt: Date;
  #failures = 0;
  #lastError: unknown;
  #flight: Promise<void> | undefined;
  #remembering: Promise<void> | undefined;

  constructor(spiffeId: SpiffeId, ports: RefreshingPorts) {
    this.spiffeId = spiffeId;
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock);
    this.#nextAttempt = ports.clock();
  }

  /** The certificate, unless it has expired or there has never been one. */
  get issuance(): IssuedSvid | undefined {
    const issuance = this.#issuance;
    return issuance && this.#ports.clock() < issuance.svid.notAfter ? issuance : undefined;
  }

  get status(): IdentityStatus {
    const svid = this.#issuance?.svid;
    return {
      spiffeId: this.spiffeId,
      notAfter: svid?.notAfter,
      nextAttempt: this.#nextAttempt,
      issuer: svid?.chain[0].issuer,
      lastError: this.#lastError === undefined ? undefined : messageOf(this.#lastError),
    };
  }

  /** Keeps the identity until {@link end}. */
  async run(): Promise<void> {
    const { signal } = this.#ending;
    const unsubscribe = this.#ports.trust.changes.add(() => this.#leaveWithdrawnAuthority());
    await this.#singly(() => this.#recall());
    while (!signal.aborted) {
      const due = this.#nextAttempt;
      await this.#alarm.until(due, signal);
      // Somebody who waited for the certificate may have made the attempt, or the alarm rang.
      if (!signal.aborted && due === this.#nextAttempt) await this.#attempt();
    }
    unsubscribe();
    await this.#remembering;
  }

  end(): void {
    this.#ending.abort();
  }

  /**
   * The certificate, or the outcome of the attempt under way.
   *
   * @throws whatever the last attempt failed of, at once, while the next one is not due.
   */
  async awaitSvid(): Promise<X509Svid> {
    if (!this.issuance) await this.#flight;
    if (!this.issuance && this.#nextAttempt <= this.#ports.clock()) await this.#attempt();
    const { issuance } = this;
    if (issuance) return issuance.svid;
    throw this.#lastError ?? new IssuanceError("validity-unacceptable", "the certificate expired");
  }

  /** Never rejects: how it ended is kept. */
  #attempt(): Promise<void> {
    return this.#singly(() => this.#renew());
  }

  /** Whoever comes while work is under way waits for that work. */
  #singly(work: () => Promise<void>): Promise<void> {
    this.#flight ??= work().finally(() => {
      this.#flight = undefined;
    });
    return this.#flight;
  }

  async #recall(): Promise<void> {
    const known = await this.#ports.recall(this.spiffeId);
    if (!known) return;
    this.#ports.trust.recall(this.spiffeId, known.roots);
    this.#take(known, "certificate-recalled");
  }

  async #renew(): Promise<void> {
    const { issue, clock, random, log, trust, remember } = this.#ports;
    const { spiffeId } = this;
    try {
      const issuance = await issue(spiffeId, this.#ending.signal);
      if (!trust.accepts(issuance, clock())) {
        throw new IssuanceError("authority-withdrawn", "issued by an authority that was withdrawn");
      }
      // Without a pause since the check: what a bundle says comes before it, or after the flight.
      trust.learnAnswer(issuance);
      this.#take(issuance, "certificate-obtained");
      this.#remembering = remember(issuance);
    } catch (error) {
      this.#lastError = error;
      this.#nextAttempt = retryAt(++this.#failures, random(), clock());
      if (this.#ending.signal.aborted) return;
      const fault = error instanceof IssuanceError ? error.fault : "defect";
      const hoursLeft = this.#hoursLeft();
      log.operation({
        event: "renewal-failed",
        level: "error",
        spiffeId,
        fault,
        detail: messageOf(error),
        hoursLeft,
      });
    }
  }

  #take({ svid, elements }: Issuance, event: string): void {
    const { policy, random, log } = this.#ports;
    // Not its roots: they are kept once for all identities.
    this.#issuance = { svid, elements };
    this.#failures = 0;
    this.#lastError = undefined;
    this.#nextAttempt = renewalAt(svid, policy, random());
    const { notAfter, chain } = svid;
    log.operation({
      event,
      level: "info",
      spiffeId: this.spiffeId,
      serial: chain[0].serialNumber.toLowerCase(),
      notAfter: notAfter.toISOString(),
      renewsAt: this.#nextAttempt.toISOString(),
    });
    this.changes.notify();
  }

  /** A certificate whose root is gone from the bundle is good for nothing: peers refuse it. */
  #leaveWithdrawnAuthority(): void {
    const { trust, clock, log } = this.#ports;
    const svid = this.issuance?.svid;
    // Who has failed tries again soon; who is about to get another has it checked.
    const isBusy = this.#failures > 0 || this.#flight !== undefined;
    if (!svid || isBusy || trust.verifies(svid, clock())) return;
    log.operation({ event: "authority-withdrawn", level: "warning", spiffeId: this.spiffeId });
    this.#nextAttempt = clock();
    this.#alarm.ring();
  }

  #hoursLeft(): number {
    const left = (this.#issuance?.svid.notAfter.getTime() ?? 0) - this.#ports.clock().getTime();
    return Math.max(0, Math.round(left / 36_000) / 100);
  }
}
