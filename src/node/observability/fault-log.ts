import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";

/** A warning of what somebody else, or the way there, has kept from being done; it is tried again. */
export function logFault(
  { operation }: OperationLog,
  event: string,
  error: unknown,
  fields: Readonly<Record<string, string>> = {},
): void {
  operation({ event, level: "warning", detail: messageOf(error), ...fields });
}
