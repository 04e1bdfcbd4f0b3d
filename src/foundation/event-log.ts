import type { EventName } from "./event-names.ts";

/** The severity of an event. */
export type Level = "info" | "warning" | "error";

/** An event apart from requests: a record that does not open, an issuer that cannot be reached. */
export interface OperationalEvent {
  readonly event: EventName;
  readonly level: Level;
  /** A sentence for the operator. */
  readonly detail?: string;
  /** The writer of the line sets it. */
  readonly time?: never;
  readonly [field: string]: string | number | boolean | undefined;
}

/** Takes operational events. It neither throws nor waits. */
export interface OperationLog {
  readonly operation: (event: OperationalEvent) => void;
}

/** Writes a line, which comes without its line break. It must not throw. */
export type WriteLine = (line: string, level: Level) => void;

/** The log of a program: only its `main.ts` knows the clock and the place of the lines. */
export function createOperationLog(clock: () => Date, write: WriteLine): OperationLog {
  return {
    operation: ({ event, level, ...details }) =>
      write(formatLine(clock(), level, { event, ...details }), level),
  };
}

/**
 * One line of any program's log: a JSON object that begins with `time` (RFC 3339, UTC) and `level`.
 *
 * @param event Its name is its first field, so that the name follows the level in the line.
 */
export function formatLine(time: Date, level: Level, event: { readonly event: EventName }): string {
  return JSON.stringify({ time, level, ...event });
}

/** Writes on the console, which Workers Logs collects by level, and Node as standard output and error. */
export const writeToConsole: WriteLine = (line, level) => consoleMethods[level](line);

const consoleMethods: Readonly<Record<Level, (line: string) => void>> = {
  info: (line) => console.log(line),
  warning: (line) => console.warn(line),
  error: (line) => console.error(line),
};
