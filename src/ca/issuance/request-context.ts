import { CaError } from "../../foundation/errors.ts";
import type { AuditEvent } from "./audit-event.ts";

/** The circumstances of one request. */
export interface RequestContext {
  readonly now: Date;
  /** Aborted when the caller no longer waits for the answer. */
  readonly signal: AbortSignal;
  /** Each step fills in what it establishes. */
  readonly audit: AuditEvent;
}

/** Refuses to sign for a caller that has hung up or is out of time. @throws CaError `request-abandoned`. */
export function requireWaitingCaller(signal: AbortSignal): void {
  if (!signal.aborted) return;
  throw new CaError(
    { reason: "request-abandoned" },
    "the caller is gone, or its deadline has passed",
  );
}
