import type { AddressInfo } from "node:net";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import { messageOf } from "../../foundation/errors.ts";
import type { Pause } from "../../foundation/pause.ts";
import { recur } from "../../program/recurrence.ts";
import type { ServingCertificateSource } from "../tls/serving-certificate.ts";
import type { ServerCredentials } from "../tls/tls-credentials.ts";
import type { TlsListener } from "./listener.ts";

/** A listener that keeps up with its certificate and with the trust bundle. */
export interface RenewingListener {
  /** Rejects when it cannot listen there. */
  readonly address: Promise<AddressInfo>;
  /** Why the port is closed, or has an old certificate; empty otherwise. */
  readonly state: () => { readonly isOpen: boolean; readonly reasons: readonly string[] };
  readonly close: (graceMilliseconds: number) => Promise<void>;
}

export interface Renewal {
  readonly certificateAt: ServingCertificateSource;
  /** The roots of client certificates at an instant, PEM. */
  readonly clientRootsAt: (now: Date) => Promise<string>;
  readonly listen: (credentials: ServerCredentials) => Promise<TlsListener>;
  readonly log: EventLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
}

/** The interval at which the listener reads its certificate and the trust bundle. */
const refreshSeconds = 1;

/**
 * Listens as soon as there is a serving certificate. It always uses the newest one, and the current trust
 * bundle for client certificates. Connections outlive every change.
 */
export function openWhenCertified(renewal: Renewal): RenewingListener {
  const { log, clock } = renewal;
  const opened = Promise.withResolvers<AddressInfo>();
  // A caller may close the listener without awaiting this, and Node ends at an unhandled rejection.
  opened.promise.catch(() => {});
  let listener: TlsListener | undefined;
  let current: ServerCredentials | undefined;
  let fault = "";

  async function refresh(): Promise<void> {
    const now = clock();
    const certificate = await renewal.certificateAt(now);
    const clientRoots = await renewal.clientRootsAt(now);
    if (certificate !== current?.certificate || clientRoots !== current.clientRoots) {
      await use({ certificate, clientRoots });
    }
    fault = "";
  }

  async function use(credentials: ServerCredentials): Promise<void> {
    if (listener) listener.replace(credentials);
    else await open(credentials);
    current = credentials;
    log.operation({
      event: "serving",
      level: "info",
      detail: "uses a new certificate or trust bundle",
    });
  }

  async function open(credentials: ServerCredentials): Promise<void> {
    try {
      listener = await renewal.listen(credentials);
      opened.resolve(listener.address);
    } catch (error) {
      opened.reject(error);
      throw error;
    }
  }

  /** Logs each fault once, and not every second. */
  function failed(error: unknown): void {
    const detail = messageOf(error);
    if (detail === fault) return;
    fault = detail;
    log.operation({ event: "serving-certificate-missing", level: "warning", detail });
  }

  const refreshing = recur(refresh, refreshSeconds, failed, renewal.pause);

  function reasons(): readonly string[] {
    if (fault !== "") return [`the serving certificate: ${fault}`];
    return listener ? [] : ["there is no serving certificate yet"];
  }

  return {
    address: opened.promise,
    state: () => ({ isOpen: listener !== undefined, reasons: reasons() }),
    close: async (graceMilliseconds) => {
      await refreshing.end();
      opened.reject(new Error("closed before there was a certificate"));
      await listener?.close(graceMilliseconds);
    },
  };
}
