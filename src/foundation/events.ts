import { messageOf } from "./errors.ts";
import type { EventName } from "./event-names.ts";

/** How urgent an event is. */
type Level = "info" | "warning" | "error";

/** An event apart from requests: a record that does not open, an issuer that cannot be reached. */
export interface OperationalEvent {
  readonly event: EventName;
  readonly level: Level;
  readonly detail?: string;
  /** Set only by the writer of the line. */
  readonly time?: never;
  readonly [field: string]: string | number | boolean | undefined;
}

/** Takes operational events. It neither throws nor waits. */
export interface OperationLog {
  readonly operation: (event: OperationalEvent) => void;
}

/** Whether a program can do its work now. A ready one may have reasons, too. */
export interface Readiness {
  readonly ready: boolean;
  readonly reasons: readonly string[];
}

/** Writes a line, which comes without its line break. It must not throw. */
export type WriteLine = (line: string, level: Level) => void;

/** Creates logs, and logs failures. */
export const OperationLog = {
  /** The log of a program: only its `main.ts` knows the clock and where the lines go. */
  create(clock: () => Date, write: WriteLine): OperationLog {
    return {
      operation: ({ event, level, ...details }) =>
        write(OperationalEvent.formatLine(clock(), level, { event, ...details }), level),
    };
  },

  /** Logs a failure, by default as a warning: another server or the network has caused it, and the next attempt follows. */
  logFault(
    { operation }: OperationLog,
    event: EventName,
    error: unknown,
    fields: Partial<OperationalEvent> = {},
  ): void {
    operation({ event, level: "warning", detail: messageOf(error), ...fields });
  },
};

/** Writes events as lines. */
export const OperationalEvent = {
  /**
   * One line of any program's log: a JSON object that begins with `time` (RFC 3339, UTC) and `level`.
   *
   * @param event Its name is its first field, so that the name follows the level in the line.
   */
  formatLine(time: Date, level: Level, event: { readonly event: EventName }): string {
    return JSON.stringify({ time, level, ...event });
  },
};

/** Where lines go. */
export const WriteLine = {
  /** Writes on the console, which Workers Logs collects by level, and Node as standard output and error. */
  toConsole: ((line, level) => console[consoleMethods[level]](line)) satisfies WriteLine,
};

const consoleMethods = { info: "log", warning: "warn", error: "error" } as const;
