import { messageOf } from "../../foundation/errors.ts";
import { type OperationalEvent, OperationLog } from "../../foundation/events.ts";
import { InterruptibleSleep } from "../../foundation/interruptible-sleep.ts";
import { RenewalPlan } from "../../foundation/renewal-plan.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import { TraceContext } from "../../foundation/trace-context.ts";
import { SerialNumber } from "../../pki/encoding/serial-number.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { RenewalPolicy } from "../configuration.ts";
import { Subscribers } from "../subscribers.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import type { Issue } from "./ca-client.ts";
import { type CaAnswer, IssuanceError, type X509Svid } from "./x509-svid.ts";

/** What all identities of an agent share. */
export interface RefreshingPorts {
  readonly issue: Issue;
  readonly trust: TrustRoots;
  readonly policy: RenewalPolicy;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
  /** Loads the certificate of an earlier run; `undefined` if it is unusable. Never rejects. */
  readonly load: (spiffeId: SpiffeId) => Promise<CaAnswer | undefined>;
  /** Stores each new certificate. Never rejects. */
  readonly store: (svid: X509Svid) => Promise<void>;
}

/** Why peers refuse a certificate that has not expired: the name of the event, and the sentence for reports. */
const sentences = {
  "authority-withdrawn": "its root was withdrawn",
  "certificate-revoked": "it is revoked",
} as const;

type Refusal = keyof typeof sentences;

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
  readonly #attempts = new SingleFlight<void>();
  #storing: Promise<void> | undefined;
  /** Why peers refuse the current certificate; empty if they accept it. */
  readonly #refusals = new Set<Refusal>();

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

  /** Why the identity has no certificate that peers accept; `undefined` if it has one, as far as the agent knows. */
  get fault(): string | undefined {
    const { svid } = this;
    const failure = this.#lastError === undefined ? undefined : messageOf(this.#lastError);
    if (!svid) return failure ?? "no certificate yet";
    const reasons = [
      ...[...this.#refusals].map((refusal) => sentences[refusal]),
      ...(this.#isSetBack ? ["it is not valid yet, because the clock was set back"] : []),
    ];
    if (reasons.length === 0) return undefined;
    const why = `peers refuse the certificate: ${reasons.join(", ")}`;
    return failure === undefined ? why : `${why}; ${failure}`;
  }

  /** Whether the clock was set back to before the certificate's `notBefore`. */
  get #isSetBack(): boolean {
    const { svid } = this;
    const now = this.#ports.clock();
    return svid !== undefined && now < svid.obtainedAt && now < svid.chain[0].validFromDate;
  }

  /**
   * The identity for reports. It has the last certificate even after its expiry, when {@link svid} is `undefined`, and
   * the error of the last attempt, which a success clears.
   */
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
    await this.#attempts.join(() => this.#load());
    while (!signal.aborted) {
      const due = this.#nextAttempt;
      await this.#sleep.until(due, signal, () => this.#failures === 0 && this.#isSetBack);
      // Otherwise `awaitSvid` made the attempt meanwhile, or the sleep was interrupted.
      if (!signal.aborted && due === this.#nextAttempt) await this.#attempt();
    }
    unsubscribe();
    await this.#storing;
  }

  end(): void {
    this.#ending.abort();
  }

  /**
   * The certificate. Without one, waits for the pending attempt, or makes one if it is due.
   *
   * @throws The error of the last attempt.
   */
  async awaitSvid(): Promise<X509Svid> {
    if (!this.svid) await this.#attempts.underWay;
    if (!this.svid && this.#nextAttempt <= this.#ports.clock()) await this.#attempt();
    const { svid } = this;
    if (svid) return svid;
    throw this.#lastError ?? new IssuanceError("validity-unacceptable", "the certificate expired");
  }

  /** Makes an attempt, or joins the pending one. Never rejects: a failure is kept as `#lastError`. */
  #attempt(): Promise<void> {
    return this.#attempts.join(() => this.#renew());
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
    const trace = TraceContext.create();
    try {
      const answer = await issue(spiffeId, this.#ending.signal, trace);
      if (!trust.accepts(answer, clock())) {
        throw new IssuanceError("authority-withdrawn", "issued by an authority that was withdrawn");
      }
      // No await between the check and this block, so that no new bundle can come between them.
      trust.updateFromAnswer(answer);
      this.#install(answer.svid, "certificate-obtained", trace);
      this.#storing = store(answer.svid);
    } catch (error) {
      this.#lastError = error;
      const seconds = error instanceof IssuanceError ? error.retryAfterSeconds : 0;
      const requested = { seconds, notAfter: this.svid?.notAfter };
      this.#nextAttempt = RenewalPlan.retryAt(++this.#failures, random(), clock(), requested);
      if (this.#ending.signal.aborted) return;
      const fault = error instanceof IssuanceError ? error.fault : "defect";
      const hoursLeft = hoursUntil(this.#svid?.notAfter, clock());
      const about = {
        level: "error",
        spiffeId,
        fault,
        hoursLeft,
        ...TraceContext.logFields(trace),
      } as const;
      OperationLog.logFault(log, "renewal-failed", error, about);
    }
  }

  #install(svid: X509Svid, event: OperationalEvent["event"], trace?: TraceContext): void {
    const { policy, random, log } = this.#ports;
    this.#svid = svid;
    this.#refusals.clear();
    this.#failures = 0;
    this.#lastError = undefined;
    this.#nextAttempt = RenewalPlan.at(svid, policy, random());
    const { subjectAltName: names, serialNumber } = svid.chain[0];
    log.operation({
      event,
      level: "info",
      spiffeId: this.spiffeId,
      names,
      serial: SerialNumber.shown(serialNumber),
      notAfter: svid.notAfter.toISOString(),
      renewsAt: this.#nextAttempt.toISOString(),
      ...(trace && TraceContext.logFields(trace)),
    });
    this.changes.notify();
  }

  /**
   * Records whether peers refuse the certificate, and if so, makes {@link run} renew it at once; after a failure, the
   * retry that is due soon does it.
   */
  renewIf(isRefused: (svid: X509Svid) => boolean, event: Refusal): void {
    const { svid } = this;
    this.#refusals.delete(event);
    if (!svid || !isRefused(svid)) return;
    this.#refusals.add(event);
    // A pending attempt or the coming retry gets another certificate.
    if (this.#failures > 0 || this.#attempts.underWay) return;
    const { clock, log } = this.#ports;
    log.operation({ event, level: "warning", spiffeId: this.spiffeId });
    this.#nextAttempt = clock();
    this.#sleep.interrupt();
  }
}

/** The hours until a certificate expires, with two decimals: 0 for an expired or missing one. */
export function hoursUntil(notAfter: Date | undefined, now: Date): number {
  const milliseconds = (notAfter?.getTime() ?? 0) - now.getTime();
  return Math.max(0, Math.round(milliseconds / 36_000) / 100);
}

/** The report of one identity. */
export type IdentityStatus = RefreshingIdentity["status"];
