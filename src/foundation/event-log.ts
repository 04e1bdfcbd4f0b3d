/** An event apart from requests: a record that does not open, an issuer that cannot be reached. */
export interface OperationalEvent {
  readonly event: string;
  readonly level: "info" | "warning" | "error";
  readonly detail: string;
  readonly [field: string]: string | number;
}

/** Where such events go, one structured line each. Must not throw. */
export interface OperationLog {
  readonly operation: (event: OperationalEvent) => void;
}

/** Events as JSON, one line each, on the console that Workers Logs collects. */
export const consoleLog: OperationLog & { readonly audit: (event: object) => void } = {
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
