import type { EventLog } from "../../../src/ca/issuance/event-log.ts";
import type { OperationalEvent } from "../../../src/foundation/events.ts";

/** An audit event as its line in the log has it. */
export type AuditLine = Readonly<Record<string, unknown>>;

/** A log that records its events. */
export interface EventRecorder extends EventLog {
  readonly audits: AuditLine[];
  readonly operations: OperationalEvent[];
  /** Removes and returns the audit events so far. */
  readonly takeAudits: () => readonly AuditLine[];
  /** Resolves with the first operational event of this name, or the n-th, even if it came before the call. */
  readonly until: (name: string, n?: number) => Promise<OperationalEvent>;
}

export function createEventRecorder(): EventRecorder {
  const audits: AuditLine[] = [];
  const operations: OperationalEvent[] = [];
  const waiting = new Set<() => void>();
  return {
    audits,
    operations,
    takeAudits: () => audits.splice(0),
    // A copy, because the caller may still change the event.
    audit: (event) => void audits.push(JSON.parse(JSON.stringify(event))),
    operation: (event) => {
      operations.push(event);
      for (const check of waiting) check();
    },
    until: (name, n = 1) =>
      new Promise((resolve) => {
        const check = (): void => {
          const found = operations.filter(({ event }) => event === name)[n - 1];
          if (!found) return;
          waiting.delete(check);
          resolve(found);
        };
        waiting.add(check);
        check();
      }),
  };
}
