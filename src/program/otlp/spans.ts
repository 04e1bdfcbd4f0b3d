import { AsyncLocalStorage } from "node:async_hooks";
import { CaError } from "../../foundation/errors.ts";
import type { Members } from "../../foundation/json-members.ts";
import { TraceContext } from "../../foundation/trace-context.ts";
import type { Spans } from "../telemetry.ts";
import { OtlpValue } from "./values.ts";

/** A call has three parts today. The bound keeps a loop within a call from filling the queue. */
const maximumParts = 16;

interface Call {
  readonly trace: TraceContext;
  /** The Unix time in milliseconds at which `performance.now()` was 0, by the clock when the call began. */
  readonly origin: number;
  readonly parts: object[];
  /** The event of the call, once it is logged. */
  noted: Members;
}

/** The codes of gRPC by number; then those that are errors of the server by OpenTelemetry's conventions. */
const codes =
  "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED".split(
    " ",
  );
const faults = /^(?:UNKNOWN|DEADLINE_EXCEEDED|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DATA_LOSS)$/;

/**
 * Creates the recording of spans. A call that its caller does not sample has none, and no call has more than 16 parts.
 * @param record Gets the spans of each call that has ended, in OTLP: the call's own, then those of its parts.
 */
export function createSpans(clock: () => Date, record: (spans: readonly object[]) => void): Spans {
  const current = new AsyncLocalStorage<Call>();
  return {
    call: async (name, header, answer, codeOf) => {
      const trace = TraceContext.of(header);
      if (!isSampled(trace)) return answer();
      const begun = performance.now();
      const call: Call = { trace, origin: clock().getTime() - begun, parts: [], noted: {} };
      const isGrpc = header.get("content-type")?.startsWith("application/grpc");
      let code = "INTERNAL";
      try {
        const response = await current.run(call, answer);
        code = codes[codeOf(response) ?? 0] ?? "UNKNOWN";
        return response;
      } finally {
        const { spanId = trace.spanId, ...noted } = call.noted;
        // The same fields are in the log, so none of them is secret.
        const attributes = {
          "rpc.system.name": isGrpc ? "grpc" : "connectrpc",
          "rpc.method": name,
          "rpc.response.status_code": code,
          "rampart.outcome": noted["outcome"],
          "rampart.reason": noted["reason"],
          "rampart.spiffe_id": noted["spiffeId"],
          "rampart.cluster": noted["cluster"],
          "rampart.request_id": noted["requestId"],
        };
        const errorType = faults.test(code) ? code : undefined;
        const span = spanOf(call, { name, begun, errorType, attributes });
        record([
          { ...span, spanId, parentSpanId: trace.parentId, kind: 2, flags: span.flags | isRemote },
          ...call.parts.map((part) => ({ ...part, parentSpanId: spanId })),
        ]);
      }
    },
    part: (name, work) => {
      const call = current.getStore();
      if (!call || call.parts.length === maximumParts) return work();
      const begun = performance.now();
      const end = (errorType?: string): void =>
        void call.parts.push(spanOf(call, { name, begun, errorType }));
      const fail = (error: unknown): void =>
        end(error instanceof CaError ? error.refusal.reason : "fault");
      try {
        const result = work();
        if (result instanceof Promise) result.then(() => end(), fail);
        else end();
        return result;
      } catch (error) {
        fail(error);
        throw error;
      }
    },
    note: (event) => {
      const call = current.getStore();
      if (call && event["spanId"] && call.trace.traceId === event["traceId"]) call.noted = event;
    },
  };
}

const isSampled = ({ flags }: TraceContext): boolean => (Number.parseInt(flags, 16) & 1) === 1;

/** Bits of `SpanFlags`: one says that it is known whether the parent is of another program, one that it is. */
const isRemoteKnown = 0x100;
const isRemote = 0x200;

interface Work {
  readonly name: string;
  readonly begun: number;
  readonly errorType: string | undefined;
  readonly attributes?: Members;
}

/** The span of work that ends now. Its parent is in this program unless the caller sets {@link isRemote}. */
function spanOf({ trace, origin }: Call, { name, begun, errorType, attributes }: Work) {
  const { traceId, state: traceState, flags } = trace;
  return {
    ...{ traceId, traceState, spanId: TraceContext.create().spanId, name, kind: 1 },
    flags: Number.parseInt(flags, 16) | isRemoteKnown,
    startTimeUnixNano: OtlpValue.nanoseconds(origin + begun),
    endTimeUnixNano: OtlpValue.nanoseconds(origin + performance.now()),
    attributes: OtlpValue.attributes({ ...attributes, "error.type": errorType }),
    status: errorType === undefined ? {} : { code: 2 },
  };
}
