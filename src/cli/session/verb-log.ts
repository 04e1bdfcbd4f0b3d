import { createEventLog, type EventLog } from "../../ca/issuance/audit-event.ts";
import type { OperationalEvent } from "../../foundation/events.ts";
import type { Terminal } from "../terminal/terminal.ts";

/** A log in lines of JSON, or in sentences for a person. The standard output is for the answer of the verb. */
export function logOf(terminal: Terminal): EventLog {
  const log = createEventLog(terminal.clock, (line) => terminal.notice(line));
  const operation: EventLog["operation"] = (event) => {
    // The verb itself says why it has no KEK.
    if (event.event === "kek-unavailable") return;
    if (terminal.isWatched) terminal.complain(sentenceOf(event));
    else log.operation(event);
  };
  return { ...log, operation };
}

/** What has happened, and in brackets to what. */
function sentenceOf({ event, level, detail = event, ...fields }: OperationalEvent): string {
  const named = Object.entries(fields).map(([name, value]) => `${name} ${value}`);
  return named.length === 0 ? detail : `${detail} (${named.join(", ")})`;
}

/**
 * A log of errors only: in a dry run the other events did not happen, and a person learns from the answer what has.
 */
export function errorsOf(log: EventLog): EventLog {
  return {
    ...log,
    operation: (event) => {
      if (event.level === "error") log.operation(event);
    },
  };
}
