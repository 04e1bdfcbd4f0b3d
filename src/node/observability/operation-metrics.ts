import { Counter, type Registry } from "prom-client";
import type { OperationLog } from "../../foundation/event-log.ts";

/** A log that counts its operational events, under the names that the runbook has. */
export function countingOperations<Log extends OperationLog>(log: Log, registry: Registry): Log {
  const operations = new Counter({
    name: "rampart_operations_total",
    help: "Operational events, by event and level.",
    labelNames: ["event", "level"],
    registers: [registry],
  });
  return {
    ...log,
    operation: (event) => {
      operations.inc({ event: event.event, level: event.level });
      log.operation(event);
    },
  };
}
