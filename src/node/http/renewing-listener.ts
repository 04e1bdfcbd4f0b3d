import { X509Certificate } from "node:crypto";
import type { AddressInfo } from "node:net";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import { messageOf } from "../../foundation/errors.ts";
import type { Pause } from "../../foundation/pause.ts";
import { type Recurrence, recur } from "../../program/recurrence.ts";
import type { ServerCredentials, ServingCertificateSource } from "../tls.ts";
import type { TlsListener } from "./listener.ts";

interface Renewal {
  readonly certificateAt: ServingCertificateSource;
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
  #endsAt = new Date(0);
  #fault = "";

  constructor(renewal: Renewal) {
    this.#renewal = renewal;
    // A caller may close the listener without awaiting this, and Node ends at an unhandled rejection.
    this.#opened.promise.catch(() => {});
    const failed = (error: unknown) => this.#report(error);
    this.#refreshing = recur(() => this.#refresh(), refreshSeconds, failed, renewal.pause);
  }

  /** Rejects when it cannot listen there. */
  get address(): Promise<AddressInfo> {
    return this.#opened.promise;
  }

  /** Why the port is closed, or has an old certificate; empty otherwise. */
  state(): { readonly isOpen: boolean; readonly reasons: readonly string[] } {
    const isOpen = this.#listener !== undefined && this.#renewal.clock() < this.#endsAt;
    if (this.#fault !== "") return { isOpen, reasons: [`the serving certificate: ${this.#fault}`] };
    return { isOpen, reasons: isOpen ? [] : ["there is no serving certificate yet"] };
  }

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
      await this.#use({ certificate, clientRoots });
    // Whoever has replaced it may be late, and callers refuse it.
    if (this.#endsAt <= now) throw new Error(`it ended at ${this.#endsAt.toISOString()}`);
    this.#fault = "";
  }

  async #use(credentials: ServerCredentials): Promise<void> {
    if (this.#listener) this.#listener.replace(credentials);
    else await this.#open(credentials);
    this.#current = credentials;
    this.#endsAt = new X509Certificate(credentials.certificate.chainPem).validToDate;
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

  /** Logs each fault once, and not every second. */
  #report(error: unknown): void {
    const detail = messageOf(error);
    if (detail === this.#fault) return;
    this.#fault = detail;
    this.#renewal.log.operation({ event: "serving-certificate-missing", level: "warning", detail });
  }
}
