const connectHeader = "connect-timeout-ms";
const grpcHeader = "grpc-timeout";

/**
 * The longest timeout of a call: the most whole seconds below 2^31 ms. Node fires a timer of more milliseconds at once.
 */
export const longestTimeoutMs = 2_147_483_000;

/** A bearer token as an HTTP header can carry it: one line of visible ASCII, of a length that servers accept. */
export const bearerToken: RegExp = /^[\x21-\x7e]{1,16384}$/;

/** The timeouts that callers ask for. */
export const CallTimeout = {
  /**
   * The timeout that a caller asks for in `Connect-Timeout-Ms`, in milliseconds, at most {@link longestTimeoutMs}, or
   * `undefined` for an invalid value (Connect protocol, Unary-Request: at most ten digits).
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

  /**
   * Lowers the timeouts in the headers of a call to what a timer can wait, because Connect sets a timer with any timeout.
   * @returns The same headers, or a copy if a timeout is lowered.
   */
  cap(header: Headers): Headers {
    const connect = CallTimeout.parseConnect(header.get(connectHeader) ?? "");
    const grpc = CallTimeout.parseGrpc(header.get(grpcHeader) ?? "");
    if (connect !== longestTimeoutMs && grpc !== longestTimeoutMs) return header;
    const capped = new Headers(header);
    if (connect === longestTimeoutMs) capped.set(connectHeader, `${connect}`);
    if (grpc === longestTimeoutMs) capped.set(grpcHeader, `${grpc / 1000}S`);
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
   * The seconds to wait, or `undefined` for any value but a whole number of up to five digits; also for a date,
   * which would need a clock that both sides share.
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

/** The header fields of an answer, one value for each name. */
export type AnswerFields = Readonly<Record<string, string>>;
