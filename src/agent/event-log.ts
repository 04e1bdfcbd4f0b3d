/** Something that happened, as one line of the log. */
export interface AgentEvent {
  readonly event: string;
  readonly level: "info" | "warn" | "error";
  readonly [detail: string]: string | number | boolean | undefined;
}

/** Takes one event. It neither throws nor waits. */
export type EventLog = (event: AgentEvent) => void;

/** Where now comes from: only a main.ts reads a real clock. */
export type Clock = () => Date;

/** One sentence for whatever was thrown. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
