import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import { type Pause, pause as systemPause } from "../../foundation/work/pause.ts";
import type { EnvoyAdmin } from "./envoy-admin.ts";

/** How long connections have to end by themselves. */
export type DrainPolicy =
  | { readonly kind: "fixed"; readonly milliseconds: number }
  /** Until no connection is left, but not shorter than this (`EXIT_ON_ZERO_ACTIVE_CONNECTIONS`). */
  | { readonly kind: "until-idle"; readonly minimumMilliseconds: number };

/** The parts of a drain. */
export interface DrainOptions {
  readonly admin: EnvoyAdmin;
  readonly policy: DrainPolicy;
  readonly log: OperationLog;
  readonly pause?: Pause;
}

const pauseMilliseconds = 1_000;

/** Looks in a row that may fail before the drain ends. */
const maximumFailures = 5;

/**
 * Tells all connections to close, and waits as the policy says, or until the signal aborts.
 *
 * @throws When Envoy cannot be told.
 */
export async function drainConnections(
  { admin, policy, log, pause = systemPause }: DrainOptions,
  signal: AbortSignal,
): Promise<void> {
  await admin.drain(true, signal);
  const milliseconds = policy.kind === "fixed" ? policy.milliseconds : policy.minimumMilliseconds;
  log.operation({ event: "proxy-draining", level: "info", policy: policy.kind, milliseconds });
  await pause(milliseconds, signal);
  if (policy.kind === "fixed") return;
  for (let failures = 0; failures < maximumFailures && !signal.aborted; ) {
    try {
      if (!(await admin.activeConnections())) return;
      failures = 0;
    } catch (error) {
      failures++;
      log.operation({ event: "connections-uncounted", level: "warning", detail: messageOf(error) });
    }
    await pause(pauseMilliseconds, signal);
  }
}
