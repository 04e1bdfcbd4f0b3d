import type { HeaderFields } from "./headers.ts";

/** The position of a call in a distributed trace (W3C Trace Context). Callers choose it, so it proves nothing. */
export interface TraceContext {
  /** 32 hexadecimal digits, the same in every program that a call passes. */
  readonly traceId: string;
  /** The span of the caller, which has sent this context. */
  readonly parentId?: string | undefined;
  /** The span of this program's part of the call: 16 hexadecimal digits. */
  readonly spanId: string;
  /** Two hexadecimal digits, of which only `sampled` and `random` are passed on. */
  readonly flags: string;
  /** The `tracestate` of the caller, passed on as it is. */
  readonly state?: string | undefined;
}

/** Trace Context §3.2: a version, the trace id, the parent id, flags. A later version may say more. */
const traceparentPattern =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]{1,200})?$/;

/** Trace Context §3.3.1.3: the form of a member. */
const memberPattern = /^[ \t]*[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}$/;
const mostMembers = 32;
/** Trace Context §3.3.1.5: a program passes on this much, and may drop a longer state. */
const longestState = 512;

const knownFlags = 0x03;

/** Joins and begins traces. */
export const TraceContext = {
  /** The part of this program in the trace of a call, or in a new trace for a call without a valid one. */
  of(headers: HeaderFields): TraceContext {
    const match = traceparentPattern.exec(headers.get("traceparent") ?? "");
    const [, version, traceId = "", parentId, flags = "", more] = match ?? [];
    if (!match || (version === "00" && more !== undefined)) return TraceContext.create();
    const state = headers.get("tracestate");
    return {
      traceId,
      parentId,
      spanId: newSpanId(),
      flags: (Number.parseInt(flags, 16) & knownFlags).toString(16).padStart(2, "0"),
      ...(state !== null && isState(state) && { state }),
    };
  },

  /** A trace that begins here. It is not sampled: only callers have their traces sampled. */
  create(): TraceContext {
    return { traceId: hexadecimal(), spanId: newSpanId(), flags: "00" };
  },

  /** The headers by which the next program joins the trace, with this program's span as its parent. */
  headers({ traceId, spanId, flags, state }: TraceContext): {
    readonly traceparent: string;
    readonly tracestate?: string;
  } {
    const traceparent = `00-${traceId}-${spanId}-${flags}`;
    return { traceparent, ...(state !== undefined && { tracestate: state }) };
  },

  /** The fields of a log line by which the lines of several programs are joined. */
  logFields({ traceId, parentId, spanId }: TraceContext): {
    readonly traceId: string;
    readonly spanId: string;
    readonly parentId?: string;
  } {
    return { traceId, spanId, ...(parentId !== undefined && { parentId }) };
  },
};

function isState(text: string): boolean {
  if (text.length > longestState) return false;
  const members = text.split(",");
  return members.length <= mostMembers && members.every((member) => memberPattern.test(member));
}

/** 32 random hexadecimal digits, never all 0: a UUID's digits for its version and its variant are not 0. */
const hexadecimal = (): string => crypto.randomUUID().replaceAll("-", "");
const newSpanId = (): string => hexadecimal().slice(16);

/** The id of a request in logs. */
export const RequestId = {
  /** The header in which proxies and Envoy pass on the id of a request. */
  header: "x-request-id" as const,

  /**
   * The id under which the logs of several programs show one call: that of `x-request-id`, or else the trace id.
   * Callers choose it, so it proves nothing.
   */
  of(headers: HeaderFields, { traceId }: TraceContext): string {
    const given = headers.get(RequestId.header);
    return given !== null && requestIdPattern.test(given) ? given : traceId;
  },
};

/**
 * Request ids as Envoy and most proxies write them. The length is too short for a token, which must not reach the log.
 */
const requestIdPattern = /^[A-Za-z0-9._:-]{1,64}$/;
