import type { Registry } from "prom-client";
import type { OperationLog } from "../foundation/events.ts";
import type { HeaderFields } from "../foundation/headers.ts";
import type { Members } from "../foundation/json-members.ts";
import type { Pause } from "../foundation/pause.ts";
import type { Lifetime } from "./lifetime.ts";

/** The parts of a begun program that telemetry needs. */
export interface Measured {
  readonly log: OperationLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
  readonly registry: Registry;
  readonly life: Lifetime;
}

/** The export of what a program measures. It never makes a call wait or fail. */
export interface Telemetry {
  /** Exports the metrics of a program, and the spans of its calls, until it ends. Call it once. */
  readonly begin: (program: Measured) => void;
  /** Absent if no spans are exported. */
  readonly spans: Spans | undefined;
}

/** Records spans of calls, if the caller samples the trace. */
export interface Spans {
  /** Runs `answer` as a call of this name. @param codeOf The gRPC code of an answer, `undefined` for success. */
  readonly call: <Answer>(
    name: string,
    header: HeaderFields,
    answer: () => Promise<Answer>,
    codeOf: (answer: Answer) => number | undefined,
  ) => Promise<Answer>;
  /** Runs `work` as a named part of the current call. */
  readonly part: <Result>(name: string, work: () => Result) => Result;
  /** Adds the span id and the outcome of the current call, from its event in the log. */
  readonly note: (event: Members) => void;
}
