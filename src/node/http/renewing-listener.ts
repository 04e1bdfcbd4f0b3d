import { X509Certificate } from "node:crypto";
import type { AddressInfo } from "node:net";
import type { EventLog } from "../../ca/issuance/event-log.ts";
import { messageOf } from "../../foundation/errors.ts";
import type { Pause } from "../../foundation/pause.ts";
import { errorCode } from "../../program/files/small-file.ts";
import { Recurrence } from "../../program/recurrence.ts";
import type { ServerCredentials, ServingCertificate, ServingCertificateSource } from "../tls.ts";
import type { TlsListener } from "./tls-listener.ts";

interface Renewal {
  readonly certificateAt: ServingCertificateSource;
  /** Whether callers accept the certificate by the roots that they have. If absent, every certificate counts as accepted. */
  readonly isAccepted?: (certificate: ServingCertificate, now: Date) => boolean;
  /** The roots of client certificates at an instant, PEM. */
  readonly clientRootsAt: (now: Date) => Promise<string>;
  readonly listen: (credentials: ServerCredentials) => Promise<TlsListener>;
  readonly log: EventLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
}

/** How often the listener reads its certificate and the trust bundle: after a taint callers refuse the old one. */
const refreshSeconds = 0.25;

/**
 * Listens as soon as there is a serving certificate. It always uses the newest one, and the current trust
 * bundle for client certificates. Connections outlive every change.
 */
export class RenewingListener {
  readonly #renewal: Renewal;
  readonly #refreshing: Recurrence;
  readonly #opened = Promise.withResolvers<AddressInfo>();
  #listener: TlsListener | undefined;
  #current: ServerCredentials | undefined;
  #beginsAt = new Date(0);
  #endsAt = new Date(0);
  #isRefused = false;
  #fault = "";

  constructor(renewal: Renewal) {
    this.#renewal = renewal;
    // A caller may close the listener without awaiting this, and Node ends at an unhandled rejection.
    this.#opened.promise.catch(() => {});
    const failed = (error: unknown) => this.#report(error);
    this.#refreshing = Recurrence.start(
      () => this.#refresh(),
      refreshSeconds,
      failed,
      renewal.pause,
    );
  }

  /** The address, once the port is open. Rejects if it cannot listen there. */
  get address(): Promise<AddressInfo> {
    return this.#opened.promise;
  }

  /**
   * Whether the port is open with a certificate that callers accept, and what is wrong, such as an outdated certificate.
   */
  state(): { readonly isOpen: boolean; readonly reasons: readonly string[] } {
    const now = this.#renewal.clock();
    const isCurrent = this.#beginsAt <= now && now < this.#endsAt;
    const isOpen = this.#listener !== undefined && isCurrent && !this.#isRefused;
    if (this.#fault !== "") return { isOpen, reasons: [`the serving certificate: ${this.#fault}`] };
    return { isOpen, reasons: isOpen ? [] : ["there is no serving certificate yet"] };
  }

  /**
   * Ends the renewal, then closes the port: requests in flight have the grace to end before they are aborted. A
   * listener that has had no certificate yet rejects {@link address}.
   */
  async close(graceMilliseconds: number): Promise<void> {
    await this.#refreshing.end();
    this.#opened.reject(new Error("closed before there was a certificate"));
    await this.#listener?.close(graceMilliseconds);
  }

  async #refresh(): Promise<void> {
    const { certificateAt, clientRootsAt, clock } = this.#renewal;
    const now = clock();
    const certificate = await certificateAt(now);
    const clientRoots = await clientRootsAt(now);
    const current = this.#current;
    if (certificate !== current?.certificate || clientRoots !== current.clientRoots)
      await this.#use({ certificate, clientRoots }, now);
    // A certificate from files may be expired, if the program that renews it is late, and callers refuse it.
    if (this.#endsAt <= now) throw new Error(`it ended at ${this.#endsAt.toISOString()}`);
    if (now < this.#beginsAt)
      throw new Error(`it is not valid before ${this.#beginsAt.toISOString()}`);
    if (this.#isRefused) throw new Error("its root was withdrawn");
    this.#fault = "";
  }

  async #use(credentials: ServerCredentials, now: Date): Promise<void> {
    if (this.#listener) this.#listener.replace(credentials);
    else await this.#open(credentials);
    this.#current = credentials;
    const leaf = new X509Certificate(credentials.certificate.chainPem);
    [this.#beginsAt, this.#endsAt] = [leaf.validFromDate, leaf.validToDate];
    this.#isRefused = this.#renewal.isAccepted?.(credentials.certificate, now) === false;
    const detail = "uses a new certificate or trust bundle";
    this.#renewal.log.operation({ event: "serving", level: "info", detail });
  }

  async #open(credentials: ServerCredentials): Promise<void> {
    try {
      this.#listener = await this.#renewal.listen(credentials);
      this.#opened.resolve(this.#listener.address);
    } catch (error) {
      this.#opened.reject(error);
      throw error;
    }
  }

  /** Logs a fault unless the last one was the same. */
  #report(error: unknown): void {
    // Not logged, because a port in use ends the program with a sentence of its own.
    if (errorCode(error) === "EADDRINUSE") return;
    const detail = messageOf(error);
    if (detail === this.#fault) return;
    this.#fault = detail;
    this.#renewal.log.operation({ event: "serving-certificate-missing", level: "warning", detail });
  }
}
