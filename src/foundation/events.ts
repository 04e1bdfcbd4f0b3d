import { messageOf } from "./errors.ts";

/** How urgent an event is. */
type Level = "info" | "warning" | "error";

/** An event apart from requests: a record that does not open, an issuer that cannot be reached. */
export interface OperationalEvent {
  readonly event: EventName;
  readonly level: Level;
  readonly detail?: string;
  /** The writer of the line sets it. */
  readonly time?: never;
  readonly [field: string]: string | number | boolean | undefined;
}

/** Takes operational events. It neither throws nor waits. */
export interface OperationLog {
  readonly operation: (event: OperationalEvent) => void;
}

/** Whether a program can do its work now. It may give reasons even when it can. */
export interface Readiness {
  readonly ready: boolean;
  readonly reasons: readonly string[];
}

/** Writes a line, which comes without its line break. It must not throw. */
export type WriteLine = (line: string, level: Level) => void;

/** Creates logs, and logs failures. */
export const OperationLog = {
  /** The log of a program: only its `main.ts` knows the clock and the place of the lines. */
  create(clock: () => Date, write: WriteLine): OperationLog {
    return {
      operation: ({ event, level, ...details }) =>
        write(OperationalEvent.formatLine(clock(), level, { event, ...details }), level),
    };
  },

  /** Logs a failure, by default as a warning: another server or the network has caused it, and the next attempt follows. */
  logFault(
    { operation }: OperationLog,
    event: EventName,
    error: unknown,
    fields: Partial<OperationalEvent> = {},
  ): void {
    operation({ event, level: "warning", detail: messageOf(error), ...fields });
  },
};

/** Writes events as lines. */
export const OperationalEvent = {
  /**
   * One line of any program's log: a JSON object that begins with `time` (RFC 3339, UTC) and `level`.
   *
   * @param event Its name is its first field, so that the name follows the level in the line.
   */
  formatLine(time: Date, level: Level, event: { readonly event: EventName }): string {
    return JSON.stringify({ time, level, ...event });
  },
};

/** Where lines go. */
export const WriteLine = {
  /** Writes on the console, which Workers Logs collects by level, and Node as standard output and error. */
  toConsole: ((line, level) => consoleMethods[level](line)) satisfies WriteLine,
};

const consoleMethods: Readonly<Record<Level, (line: string) => void>> = {
  info: (line) => console.log(line),
  warning: (line) => console.warn(line),
  error: (line) => console.error(line),
};

/**
 * The names of all events that a program logs. docs/how-to/troubleshoot.md has a section for each, and a test
 * holds the page to this list.
 */
type EventName =
  // Calls.
  | "create-certificate"
  | "create-token"
  | "forwarded"
  | "upstream-unavailable"
  | "not-forwarded"
  | "http-fault"
  | "quota-unknown"
  | "counts-not-written"
  | "client-certificate-refused"
  | "handshake-refused"
  | "console-refused"
  // Authorities.
  | "authority-minted"
  | "authority-adopted"
  | "intermediate-installed"
  | "intermediate-requested"
  | "intermediate-due"
  | "request-withdrawn"
  | "request-dropped"
  | "authority-pruned"
  | "token-key-minted"
  | "token-key-pruned"
  | "authority-tainted"
  | "authority-exposed"
  | "taint-missing"
  | "root-trusted"
  | "record-resealed"
  | "record-refused"
  | "rotation-fault"
  | "rotation-overdue"
  | "emergency-rotation"
  | "store-unreachable"
  | "kek-unavailable"
  | "store-watch-failed"
  | "store-not-writable"
  | "plugged-in-refused"
  | "import-warning"
  | "backup-not-noted"
  // Denials, revocations and CRLs.
  | "denial-added"
  | "denial-removed"
  | "certificates-revoked"
  | "crl-fault"
  | "root-crl-signed"
  | "crls-emptied"
  | "crls-delivered"
  | "crls-not-delivered"
  | "crls-not-reached"
  | "crl-not-fetched"
  | "crl-refused"
  | "crl-not-delivered"
  // Roots in clusters.
  | "roots-delivered"
  | "roots-not-delivered"
  | "roots-not-reached"
  | "root-not-delivered"
  | "delivery-failed"
  | "watch-failed"
  | "bundle-changed"
  | "bundle-not-fetched"
  | "cluster-unreachable"
  | "cluster-busy"
  | "issuer-keys-unreachable"
  // Servers.
  | "listening"
  | "serving"
  | "serving-certificate-missing"
  | "renewal-failed"
  | "ending"
  | "log-lines-lost"
  | "process-ended"
  | "platform-limits"
  | "connections-proxied"
  | "configuration-warning"
  | "configuration-fault"
  | "configuration-reloaded"
  | "configuration-refused"
  | "configuration-needs-restart"
  | "fault"
  // The issuance log.
  | "log-not-published"
  | "witness-refused"
  // The signer.
  | "leading"
  | "not-leading"
  | "lease-not-renewed"
  | "not-served"
  | "request-not-answered"
  | "pod-certificate-issued"
  | "pod-certificate-denied"
  | "pod-certificate-failed"
  | "service-certificate-issued"
  | "service-certificate-denied"
  | "certificate-request-issued"
  | "certificate-request-failed"
  // The agent.
  | "agent-started"
  | "variable-ignored"
  | "certificate-obtained"
  | "certificate-recalled"
  | "certificate-revoked"
  | "authority-withdrawn"
  | "csr-retried"
  | "token-missing"
  | "bundle-read"
  | "bundle-unread"
  | "bundle-unfollowed"
  | "federated-bundle-read"
  | "revocation-lists-used"
  | "revocation-lists-unused"
  | "revocation-lists-unread"
  | "revocation-lists-refused"
  | "cache-unwritten"
  | "cache-unread"
  | "file-secret-unusable"
  | "token-obtained"
  | "token-not-obtained"
  | "files-written"
  | "files-unwritten"
  | "on-change-run"
  | "on-change-failed"
  | "workloads-read"
  | "workloads-unread"
  | "identity-dropped"
  | "sds-rejected"
  | "rpc-failed"
  | "socket-narrowed"
  | "workload-healthy"
  | "workload-unhealthy"
  | "xds-connected"
  | "xds-not-connected"
  | "xds-ended"
  | "xds-withheld"
  | "proxy-started"
  | "proxy-exited"
  | "proxy-restarting"
  | "proxy-unstartable"
  | "proxy-draining"
  | "proxy-undrained"
  | "connections-uncounted"
  | "proxy-arguments-unchanged";
