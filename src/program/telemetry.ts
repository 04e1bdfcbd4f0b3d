import type { Registry } from "prom-client";
import type { OperationLog } from "../foundation/events.ts";
import type { HeaderFields } from "../foundation/headers.ts";
import type { Members } from "../foundation/json.ts";
import type { Pause } from "../foundation/pause.ts";
import type { Lifetime } from "./lifetime.ts";

/** What a program hands over of itself once it has begun. */
export interface Measured {
  readonly log: OperationLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
  readonly registry: Registry;
  readonly life: Lifetime;
}

/** The export of what a program measures. It never makes a call wait or fail. */
export interface Telemetry {
  /** Exports the metrics of a program, and the spans of its calls, until it ends. It is called once. */
  readonly begin: (program: Measured) => void;
  /** Absent where no spans are exported. */
  readonly spans: Spans | undefined;
}

/** Records the calls whose caller samples its trace. */
export interface Spans {
  /** Answers a call of this name. @param codeOf The code of gRPC of an answer, `undefined` for success. */
  readonly call: <Answer>(
    name: string,
    header: HeaderFields,
    answer: () => Promise<Answer>,
    codeOf: (answer: Answer) => number | undefined,
  ) => Promise<Answer>;
  /** Does a part of the work for the current call. */
  readonly part: <Result>(name: string, work: () => Result) => Result;
  /** Takes the span id and the outcome of the current call from its event in the log. */
  readonly note: (event: Members) => void;
}
