const connectHeader = "connect-timeout-ms";
const grpcHeader = "grpc-timeout";

/**
 * The longest timeout of a call: the most whole seconds below 2^31 ms. Node fires a timer of more milliseconds at
 * once.
 */
export const longestTimeoutMs = 2_147_483_000;

/** A bearer token as an HTTP header can carry it: one line of visible ASCII, of a length that servers accept. */
export const bearerToken: RegExp = /^[\x21-\x7e]{1,16384}$/;

/** The timeouts that callers ask for. */
export const CallTimeout = {
  /**
   * The timeout that a caller asks for in `Connect-Timeout-Ms`, in milliseconds, or `undefined` for an
   * invalid value (Connect protocol, Unary-Request: at most ten digits).
   */
  parseConnect(value: string): number | undefined {
    return /^[0-9]{1,10}$/.test(value) ? Math.min(Number(value), longestTimeoutMs) : undefined;
  },

  /**
   * Parses the timeout that a caller asks for in `grpc-timeout`, in milliseconds, at most {@link longestTimeoutMs}; micro-
   * and nanoseconds give fractions. `undefined` for an invalid value. A valid one has at most eight digits and a unit (gRPC over HTTP/2, Requests).
   */
  parseGrpc(value: string): number | undefined {
    const [, digits, unit = ""] = /^([0-9]{1,8})([HMSmun])$/.exec(value) ?? [];
    if (digits === undefined) return undefined;
    return Math.min(Number(digits) * (unitMs[unit] ?? 0), longestTimeoutMs);
  },

  /** The headers of a call with timeouts that a timer can hold: Connect hands any timeout to one. */
  cap(header: Headers): Headers {
    const isLong = {
      connect: CallTimeout.parseConnect(header.get(connectHeader) ?? "") === longestTimeoutMs,
      grpc: CallTimeout.parseGrpc(header.get(grpcHeader) ?? "") === longestTimeoutMs,
    };
    if (!isLong.connect && !isLong.grpc) return header;
    const capped = new Headers(header);
    if (isLong.connect) capped.set(connectHeader, `${longestTimeoutMs}`);
    if (isLong.grpc) capped.set(grpcHeader, `${longestTimeoutMs / 1000}S`);
    return capped;
  },
};

const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** The wait that a server asks for. */
export const RetryAfter = {
  /** The header, or the trailer of gRPC, by which a server asks a client to wait (RFC 9110 §10.2.3). */
  header: "retry-after" as const,

  /**
   * The seconds to wait, or `undefined` for any value but a whole number of up to five digits. A date counts
   * as absent: it would need a clock that both sides share.
   */
  parse(value: string | null | undefined): number | undefined {
    return value && /^\d{1,5}$/.test(value) ? Number(value) : undefined;
  },
};

/**
 * The seconds of the first preference `wait` in a header `Prefer` or `Preference-Applied` (RFC 7240 §2, §4.3): how
 * long the caller is willing to wait.
 *
 * @returns `undefined` without the preference, and unless it is a whole number of seconds.
 */
export function parseWaitSeconds(header: string | null | undefined): number | undefined {
  const preferences = header?.split(",").map((preference) => preference.split(";", 1)[0]?.trim());
  const wait = preferences?.find((preference) => /^wait(?:\s*=|$)/i.test(preference ?? ""));
  const [, digits] = /^wait\s*=\s*(\d+)$/i.exec(wait ?? "") ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/** The header fields of a message by their names, in lower case; `null` for one that is not there. */
export interface HeaderFields {
  get(name: string): string | null;
}

/** The header fields of an answer, each once. */
export type AnswerFields = Readonly<Record<string, string>>;

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

/** 32 random digits, of which the version and the variant of a UUID are never 0. */
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
 * Request ids as Envoy and most proxies write them. The length is too short for a token, which must not reach the
 * log.
 */
const requestIdPattern = /^[A-Za-z0-9._:-]{1,64}$/;
