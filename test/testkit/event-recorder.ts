import type { EventLog } from "../../src/ca/audit-event.ts";
import type { OperationalEvent } from "../../src/foundation/event-log.ts";

/** An audit event as its line in the log has it. */
export type AuditLine = Readonly<Record<string, unknown>>;

/** A log that remembers. */
export interface EventRecorder extends EventLog {
  readonly audits: AuditLine[];
  readonly operations: OperationalEvent[];
  /** Resolves with the operational event of this name that came first, or as the n-th, even in the past. */
  readonly until: (name: string, n?: number) => Promise<OperationalEvent>;
}

export function createEventRecorder(): EventRecorder {
  const audits: AuditLine[] = [];
  const operations: OperationalEvent[] = [];
  const waiting = new Set<() => void>();
  return {
    audits,
    operations,
    // As text, so that an event which changes after it was written does no harm here either.
    audit: (event) => void audits.push(JSON.parse(JSON.stringify(event))),
    operation: (event) => {
      operations.push(event);
      for (const look of waiting) look();
    },
    until: (name, n = 1) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = operations.filter(({ event }) => event === name)[n - 1];
          if (!found) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
  };
}
