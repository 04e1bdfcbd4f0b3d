import type { EventLog, OperationalEvent } from "../ca/audit-event.ts";

/** Events as JSON, one line each, on the console that Workers Logs collects. */
export const consoleLog: EventLog = {
  audit: (event) => {
    console.log(JSON.stringify(event));
  },
  operation: (event) => {
    write[event.level](JSON.stringify(event));
  },
};

const write: Readonly<Record<OperationalEvent["level"], (line: string) => void>> = {
  info: (line) => console.log(line),
  warning: (line) => console.warn(line),
  error: (line) => console.error(line),
};
