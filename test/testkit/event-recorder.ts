import type { EventLog } from "../../src/ca/audit-event.ts";
import type { OperationalEvent } from "../../src/foundation/event-log.ts";

/** An audit event as its line in the log has it. */
export type AuditLine = Readonly<Record<string, unknown>>;

/** A log that remembers. */
export interface EventRecorder extends EventLog {
  readonly audits: AuditLine[];
  readonly operations: OperationalEvent[];
}

export function createEventRecorder(): EventRecorder {
  const audits: AuditLine[] = [];
  const operations: OperationalEvent[] = [];
  return {
    audits,
    operations,
    // As text, so that an event which changes after it was written does no harm here either.
    audit: (event) => void audits.push(JSON.parse(JSON.stringify(event))),
    operation: (event) => void operations.push(event),
  };
}
