import type { AddressInfo } from "node:net";
import type { EventLog } from "../ca/audit-event.ts";
import type { Pause } from "../foundation/pause.ts";
import type { PeerProcesses } from "./observability/peer-processes.ts";

/** What a program brings to a server. */
export interface ServerContext {
  readonly log: EventLog;
  readonly clock: () => Date;
  /** How it waits between looks; where it is left out, by the timers of the platform. */
  readonly pause?: Pause | undefined;
  /** How long it waits for issuers and API servers; a default holds without it. */
  readonly fetchTimeoutMilliseconds?: number | undefined;
  /** At least 0 and less than 1; where it is left out, by the platform. */
  readonly random?: (() => number) | undefined;
  /** For one of several processes that are one server. */
  readonly peerProcesses?: PeerProcesses | undefined;
}

/** A server of this process. */
export interface RunningServer {
  /** Where RPCs are answered, once there is a certificate to answer with. */
  readonly address: Promise<AddressInfo>;
  readonly plaintextAddress: AddressInfo | undefined;
  readonly monitoringAddress: AddressInfo;
  /** Finishes what has begun, cuts what takes longer than this, and resolves when nothing is left. */
  readonly close: (graceMilliseconds: number) => Promise<void>;
}
