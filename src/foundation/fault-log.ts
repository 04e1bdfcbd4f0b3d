import { messageOf } from "./errors.ts";
import type { OperationLog } from "./event-log.ts";
import type { EventName } from "./event-names.ts";

/** Logs a failure that another server or the network has caused. The next attempt follows by itself. */
export function logFault(
  { operation }: OperationLog,
  event: EventName,
  error: unknown,
  fields: Readonly<Record<string, string>> = {},
): void {
  operation({ event, level: "warning", detail: messageOf(error), ...fields });
}
