import type { AddressInfo } from "node:net";
import type { EventLog } from "../ca/issuance/audit-event.ts";
import type { Mint } from "../ca/mint.ts";
import type { Pause } from "../foundation/pause.ts";
import type { StatusOfConfiguration } from "../program/configuration-status.ts";
import type { PeerProcesses } from "../program/metrics.ts";

/**
 * Imports the CA in a directory, unless the store has its certificate already.
 *
 * @throws OperatorError for one that no import lets in.
 */
export type PluggedInImport = (mint: Mint, directory: string, now: Date) => Promise<void>;

/** The means that a program hands to its server. */
export interface ServerContext {
  readonly log: EventLog;
  readonly clock: () => Date;
  /** Waits between attempts; by default on the timers of the platform. */
  readonly pause?: Pause | undefined;
  /** The timeout of requests to issuers and API servers; without it a default applies. */
  readonly fetchTimeoutMilliseconds?: number | undefined;
  /** At least 0 and less than 1; by default the platform's random numbers. */
  readonly random?: (() => number) | undefined;
  /** Imports the CA in `IMPORT_DIRECTORY`. */
  readonly importPluggedIn?: PluggedInImport | undefined;
  /** The state of the configuration, where it may change while the server runs. */
  readonly configurationStatus?: StatusOfConfiguration | undefined;
  /** Present in each of several processes that form one server. */
  readonly peerProcesses?: PeerProcesses | undefined;
}

/** A server of this process. */
export interface RunningServer {
  /** The address for RPCs. It resolves once the server has a certificate. */
  readonly address: Promise<AddressInfo>;
  readonly plaintextAddress: AddressInfo | undefined;
  readonly monitoringAddress: AddressInfo;
  /** Finishes the calls under way, cuts those that take longer than this, and resolves when none is left. */
  readonly close: (graceMilliseconds: number) => Promise<void>;
}
