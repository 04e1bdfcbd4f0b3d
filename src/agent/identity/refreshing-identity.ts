import { messageOf } from "../../foundation/errors.ts";
import { type EventName, logFault, type OperationLog } from "../../foundation/events.ts";
import { newTrace, type TraceContext, traceFields } from "../../foundation/headers.ts";
import { InterruptibleSleep } from "../../foundation/pause.ts";
import { Subscribers } from "../../foundation/subscribers.ts";
import { shownSerialNumber } from "../../pki/encoding/serial-number.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { RenewalPolicy } from "../configuration/configuration.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import type { Issue } from "./ca-client.ts";
import { hoursUntil, renewalAt, retryAt } from "./renewal-plan.ts";
import { type CaAnswer, IssuanceError, type X509Svid } from "./x509-svid.ts";

interface RefreshingPorts {
  readonly issue: Issue;
  readonly trust: TrustRoots;
  readonly policy: RenewalPolicy;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
  /** Loads the certificate of an earlier run, if it is still good. Never rejects. */
  readonly load: (spiffeId: SpiffeId) => Promise<CaAnswer | undefined>;
  /** Stores each new certificate. Never rejects. */
  readonly store: (svid: X509Svid) => Promise<void>;
}

/**
 * One identity whose certificate is renewed in time. While renewal fails, the identity serves its
 * current certificate until that expires.
 */
export class RefreshingIdentity {
  readonly spiffeId: SpiffeId;
  readonly changes: Subscribers = new Subscribers();
  readonly #ports: RefreshingPorts;
  readonly #sleep: InterruptibleSleep;
  readonly #ending = new AbortController();
  #svid: X509Svid | undefined;
  #nextAttempt: Date;
  #failures = 0;
  #lastError: unknown;
  #inFlight: Promise<void> | undefined;
  #storing: Promise<void> | undefined;

  constructor(spiffeId: SpiffeId, ports: RefreshingPorts) {
    this.spiffeId = spiffeId;
    this.#ports = ports;
    this.#sleep = new InterruptibleSleep(ports.clock);
    this.#nextAttempt = ports.clock();
  }

  /** The certificate, or `undefined` before the first one and after it has expired. */
  get svid(): X509Svid | undefined {
    const svid = this.#svid;
    return svid && this.#ports.clock() < svid.notAfter ? svid : undefined;
  }

  get status() {
    const svid = this.#svid;
    return {
      spiffeId: this.spiffeId,
      notAfter: svid?.notAfter,
      nextAttempt: this.#nextAttempt,
      issuer: svid?.chain[0].issuer,
      /** The names in the certificate, such as `DNS:istiod.istio-system.svc`. */
      names: svid?.chain[0].subjectAltName,
      lastError: this.#lastError === undefined ? undefined : messageOf(this.#lastError),
    };
  }

  /** Renews the certificate until {@link end}. */
  async run(): Promise<void> {
    const { signal } = this.#ending;
    const { trust, clock } = this.#ports;
    const unsubscribe = trust.changes.add(() =>
      this.renewIf((svid) => !trust.verifies(svid, clock()), "authority-withdrawn"),
    );
    await this.#singleFlight(() => this.#load());
    while (!signal.aborted) {
      const due = this.#nextAttempt;
      await this.#sleep.until(due, signal);
      // A caller of awaitSvid may have made the attempt already, or the sleep was interrupted.
      if (!signal.aborted && due === this.#nextAttempt) await this.#attempt();
    }
    unsubscribe();
    await this.#storing;
  }

  end(): void {
    this.#ending.abort();
  }

  /**
   * Resolves with the certificate, after the pending attempt if there is one.
   *
   * @throws The error of the last attempt, at once, while the next attempt is not due.
   */
  async awaitSvid(): Promise<X509Svid> {
    if (!this.svid) await this.#inFlight;
    if (!this.svid && this.#nextAttempt <= this.#ports.clock()) await this.#attempt();
    const { svid } = this;
    if (svid) return svid;
    throw this.#lastError ?? new IssuanceError("validity-unacceptable", "the certificate expired");
  }

  /** Never rejects: a failure is kept as `#lastError`. */
  #attempt(): Promise<void> {
    return this.#singleFlight(() => this.#renew());
  }

  /** A caller that comes while work is pending waits for that work. */
  #singleFlight(work: () => Promise<void>): Promise<void> {
    this.#inFlight ??= work().finally(() => {
      this.#inFlight = undefined;
    });
    return this.#inFlight;
  }

  async #load(): Promise<void> {
    const loaded = await this.#ports.load(this.spiffeId);
    if (!loaded) return;
    this.#ports.trust.restore(this.spiffeId, loaded.roots);
    this.#install(loaded.svid, "certificate-recalled");
  }

  async #renew(): Promise<void> {
    const { issue, clock, random, log, trust, store } = this.#ports;
    const { spiffeId } = this;
    const trace = newTrace();
    try {
      const answer = await issue(spiffeId, this.#ending.signal, trace);
      if (!trust.accepts(answer, clock())) {
        throw new IssuanceError("authority-withdrawn", "issued by an authority that was withdrawn");
      }
      // No await since the check: a new bundle arrives before the check or after this block.
      trust.updateFromAnswer(answer);
      this.#install(answer.svid, "certificate-obtained", trace);
      this.#storing = store(answer.svid);
    } catch (error) {
      this.#lastError = error;
      const seconds = error instanceof IssuanceError ? error.retryAfterSeconds : 0;
      const requested = { seconds, notAfter: this.svid?.notAfter };
      this.#nextAttempt = retryAt(++this.#failures, random(), clock(), requested);
      if (this.#ending.signal.aborted) return;
      const fault = error instanceof IssuanceError ? error.fault : "defect";
      const hoursLeft = hoursUntil(this.#svid?.notAfter, clock());
      const about = { level: "error", spiffeId, fault, hoursLeft, ...traceFields(trace) } as const;
      logFault(log, "renewal-failed", error, about);
    }
  }

  #install(svid: X509Svid, event: EventName, trace?: TraceContext): void {
    const { policy, random, log } = this.#ports;
    this.#svid = svid;
    this.#failures = 0;
    this.#lastError = undefined;
    this.#nextAttempt = renewalAt(svid, policy, random());
    const { subjectAltName: names, serialNumber } = svid.chain[0];
    log.operation({
      event,
      level: "info",
      spiffeId: this.spiffeId,
      names,
      serial: shownSerialNumber(serialNumber),
      notAfter: svid.notAfter.toISOString(),
      renewsAt: this.#nextAttempt.toISOString(),
      ...(trace && traceFields(trace)),
    });
    this.changes.notify();
  }

  /** Renews at once if peers refuse the certificate. After a failure the retry that is due soon does it. */
  renewIf(isRefused: (svid: X509Svid) => boolean, event: EventName): void {
    const { svid } = this;
    // The answer of a pending attempt is another certificate.
    const willRetry = this.#failures > 0 || this.#inFlight !== undefined;
    if (!svid || willRetry || !isRefused(svid)) return;
    const { clock, log } = this.#ports;
    log.operation({ event, level: "warning", spiffeId: this.spiffeId });
    this.#nextAttempt = clock();
    this.#sleep.interrupt();
  }
}

export type IdentityStatus = RefreshingIdentity["status"];

/** The identities that the agent keeps refreshed. */
export class Identities {
  /** Notified of each identity that gets another certificate or is removed. */
  readonly changes: Subscribers<RefreshingIdentity> = new Subscribers();
  readonly #ports: RefreshingPorts;
  readonly #identities = new Map<string, RefreshingIdentity>();
  readonly #running = new Set<Promise<void>>();

  constructor(ports: RefreshingPorts) {
    this.#ports = ports;
  }

  find(spiffeId: string): RefreshingIdentity | undefined {
    return this.#identities.get(spiffeId);
  }

  all(): readonly RefreshingIdentity[] {
    return [...this.#identities.values()];
  }

  /** Keeps the identity refreshed until it is removed. An identity that is known already stays as it is. */
  add(spiffeId: SpiffeId): RefreshingIdentity {
    const known = this.#identities.get(spiffeId);
    if (known) return known;
    const identity = new RefreshingIdentity(spiffeId, this.#ports);
    this.#identities.set(spiffeId, identity);
    identity.changes.add(() => this.changes.notify(identity));
    const running = identity.run().finally(() => this.#running.delete(running));
    this.#running.add(running);
    return identity;
  }

  remove(spiffeId: SpiffeId): void {
    const identity = this.#identities.get(spiffeId);
    if (!identity) return;
    this.#identities.delete(spiffeId);
    identity.end();
    this.#ports.trust.remove(spiffeId);
    identity.changes.notify();
  }

  /** Ends every identity, and resolves when no request is pending. */
  async end(): Promise<void> {
    for (const identity of this.#identities.values()) identity.end();
    await Promise.all(this.#running);
  }
}
