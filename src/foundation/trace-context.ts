import type { HeaderFields } from "./headers.ts";

/** The place of a call in a distributed trace (W3C Trace Context). Callers choose it, so it proves nothing. */
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
const traceparentForm =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]{1,200})?$/;

/** Trace Context §3.3.1.3: the form of a member. */
const memberForm = /^[ \t]*[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}$/;
const mostMembers = 32;
/** Trace Context §3.3.1.5: a program passes on this much, and may drop a longer state. */
const longestState = 512;

const knownFlags = 0x03;

/** The part of this program in the trace of a call, or in a new trace for a call without a valid one. */
export function traceOf(headers: HeaderFields): TraceContext {
  const match = traceparentForm.exec(headers.get("traceparent") ?? "");
  const [, version, traceId = "", parentId, flags = "", more] = match ?? [];
  if (!match || (version === "00" && more !== undefined)) return newTrace();
  const state = headers.get("tracestate");
  return {
    traceId,
    parentId,
    spanId: newSpanId(),
    flags: (Number.parseInt(flags, 16) & knownFlags).toString(16).padStart(2, "0"),
    ...(state !== null && isState(state) && { state }),
  };
}

function isState(text: string): boolean {
  if (text.length > longestState) return false;
  const members = text.split(",");
  return members.length <= mostMembers && members.every((member) => memberForm.test(member));
}

/** A trace that begins here. It is not sampled: Rampart exports no spans. */
export function newTrace(): TraceContext {
  return { traceId: hexadecimal(), spanId: newSpanId(), flags: "00" };
}

/** The headers by which the next program joins the trace, with this program's span as its parent. */
export function traceHeaders({ traceId, spanId, flags, state }: TraceContext): {
  readonly traceparent: string;
  readonly tracestate?: string;
} {
  const traceparent = `00-${traceId}-${spanId}-${flags}`;
  return { traceparent, ...(state !== undefined && { tracestate: state }) };
}

/** The fields of a log line by which the lines of several programs are joined. */
export function traceFields({ traceId, parentId, spanId }: TraceContext): {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId?: string;
} {
  return { traceId, spanId, ...(parentId !== undefined && { parentId }) };
}

/** 32 random digits, of which the version and the variant of a UUID are never 0. */
const hexadecimal = (): string => crypto.randomUUID().replaceAll("-", "");
const newSpanId = (): string => hexadecimal().slice(16);
