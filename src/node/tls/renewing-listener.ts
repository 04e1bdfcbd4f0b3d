import type { AddressInfo } from "node:net";
import type { EventLog } from "../../ca/audit-event.ts";
import { messageOf } from "../../foundation/errors.ts";
import type { Pause } from "../../foundation/pause.ts";
import { recur } from "../../host/recurrence.ts";
import type { TlsListener } from "../http/listener.ts";
import type { ServingCertificateSource } from "./serving-certificate.ts";
import type { ServerCredentials } from "./tls-credentials.ts";

/** A listener that keeps up with its certificate and with the trust bundle. */
export interface RenewingListener {
  /** Rejects when it cannot listen there. */
  readonly address: Promise<AddressInfo>;
  /** Why callers find no open port, or one with an old certificate; empty when neither is so. */
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

/** How often it is looked whether another certificate or another bundle is due. */
const lookSeconds = 1;

/**
 * Listens as soon as there is a certificate to show, and from then on with the newest one, and with
 * the trust bundle of the moment for its clients. Connections outlive every change.
 */
export function openWhenCertified(renewal: Renewal): RenewingListener {
  const { log, clock } = renewal;
  const opened = Promise.withResolvers<AddressInfo>();
  // Whoever started this waits for it, or is about to close it.
  opened.promise.catch(() => {});
  let listener: TlsListener | undefined;
  let current: ServerCredentials | undefined;
  let complaint = "";

  async function look(): Promise<void> {
    const now = clock();
    const certificate = await renewal.certificateAt(now);
    const clientRoots = await renewal.clientRootsAt(now);
    if (certificate === current?.certificate && clientRoots === current.clientRoots) return;
    const next = { certificate, clientRoots };
    if (listener) listener.replace(next);
    else await open(next);
    current = next;
    complaint = "";
    log.operation({ event: "serving", level: "info", detail: "has a new certificate or bundle" });
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

  /** Said once, not every second. */
  function failed(error: unknown): void {
    const detail = messageOf(error);
    if (detail === complaint) return;
    complaint = detail;
    log.operation({ event: "serving-certificate-missing", level: "warning", detail });
  }

  const looking = recur(look, lookSeconds, failed, renewal.pause);

  function reasons(): readonly string[] {
    if (complaint !== "") return [`the serving certificate: ${complaint}`];
    return listener ? [] : ["there is no serving certificate yet"];
  }

  return {
    address: opened.promise,
    state: () => ({ isOpen: listener !== undefined, reasons: reasons() }),
    close: async (graceMilliseconds) => {
      await looking.end();
      opened.reject(new Error("closed before there was a certificate"));
      await listener?.close(graceMilliseconds);
    },
  };
}
