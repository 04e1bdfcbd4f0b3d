import type { EventLog } from "../ca/issuance/audit-event.ts";
import { logFault } from "../foundation/events.ts";

/** The name of the binding of a dataset of Workers Analytics Engine. */
export const callCountsBinding = "CALL_COUNTS";

/** The part of such a dataset that the counters need. It buffers: it neither waits nor answers. */
type Dataset = Pick<AnalyticsEngineDataset, "writeDataPoint">;

/**
 * A log whose events leave data points, where the binding is there. A point has no identity and nothing that
 * a caller chooses: the cluster of an authenticated caller, the outcome, the reason, the duration. It never
 * makes a call fail.
 */
export function countingInDataset(log: EventLog, binding: unknown): EventLog {
  if (!isDataset(binding)) return log;
  const write = (blobs: [kind: string, ...more: string[]], milliseconds = 0): void => {
    try {
      binding.writeDataPoint({ indexes: [blobs[0]], blobs, doubles: [1, milliseconds] });
    } catch (error) {
      logFault(log, "counts-not-written", error);
    }
  };
  return {
    audit: (event) => {
      log.audit(event);
      const { outcome, reason = "", cluster = "", durationMilliseconds } = event;
      write(["call", outcome, reason, cluster], durationMilliseconds);
    },
    operation: (event) => {
      log.operation(event);
      write(["event", event.level, event.event]);
    },
  };
}

function isDataset(binding: unknown): binding is Dataset {
  return typeof binding === "object" && binding !== null && "writeDataPoint" in binding;
}
