import { OperationalEvent, OperationLog, type WriteLine } from "../../foundation/events.ts";
import type { AuditEvent } from "./audit-event.ts";

/** Takes the events of a CA. It neither throws nor waits. */
export interface EventLog extends OperationLog {
  readonly audit: (event: AuditEvent) => void;
}

/** The level of each outcome. A refusal is expected; a fault is not. */
const levels: Readonly<Record<AuditEvent["outcome"], OperationalEvent["level"]>> = {
  issued: "info",
  refused: "warning",
  failed: "error",
};

/** Creates logs. */
export const EventLog = {
  /** Creates the log of a CA, or of a program in front of one. */
  create(clock: () => Date, write: WriteLine): EventLog {
    return {
      ...OperationLog.create(clock, write),
      // Written as `info` whatever the outcome, so that one stream has the whole audit trail.
      audit: (event) =>
        write(OperationalEvent.formatLine(clock(), levels[event.outcome], event), "info"),
    };
  },
};
