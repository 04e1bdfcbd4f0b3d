import type { EventLog } from "../../ca/audit-event.ts";

/** A warning of what somebody else, or the way there, has kept from being done; it is tried again. */
export function logFault(
  { operation }: EventLog,
  event: string,
  error: unknown,
  fields: Readonly<Record<string, string>> = {},
): void {
  const detail = error instanceof Error ? error.message : "no reason given";
  operation({ ...fields, event, level: "warning", detail });
}
