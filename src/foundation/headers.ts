const connectHeader = "connect-timeout-ms";
const grpcHeader = "grpc-timeout";

/**
 * The longest timeout of a call, in milliseconds: the most whole seconds below 2^31 ms. Node fires a
 * timer of more at once.
 */
export const longestTimeoutMs = 2_147_483_000;

/**
 * The timeout that a caller asks for in `Connect-Timeout-Ms`, in milliseconds, or `undefined` for an
 * invalid value (Connect protocol, Unary-Request: at most ten digits).
 */
export function parseConnectTimeout(value: string): number | undefined {
  return /^[0-9]{1,10}$/.test(value) ? Math.min(Number(value), longestTimeoutMs) : undefined;
}

const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/**
 * The timeout that a caller asks for in `grpc-timeout`, in milliseconds, or `undefined` for an invalid value.
 * A valid one has at most eight digits and a unit (gRPC over HTTP/2, Requests).
 */
export function parseGrpcTimeout(value: string): number | undefined {
  const [, digits, unit = ""] = /^([0-9]{1,8})([HMSmun])$/.exec(value) ?? [];
  if (digits === undefined) return undefined;
  return Math.min(Number(digits) * (unitMs[unit] ?? 0), longestTimeoutMs);
}

/** The headers of a call with timeouts that a timer can hold: Connect hands any timeout to one. */
export function capTimeouts(header: Headers): Headers {
  const isLong = {
    connect: parseConnectTimeout(header.get(connectHeader) ?? "") === longestTimeoutMs,
    grpc: parseGrpcTimeout(header.get(grpcHeader) ?? "") === longestTimeoutMs,
  };
  if (!isLong.connect && !isLong.grpc) return header;
  const capped = new Headers(header);
  if (isLong.connect) capped.set(connectHeader, `${longestTimeoutMs}`);
  if (isLong.grpc) capped.set(grpcHeader, `${longestTimeoutMs / 1000}S`);
  return capped;
}

/** The header, or the trailer of gRPC, by which a server asks a client to wait (RFC 9110 §10.2.3). */
export const retryAfterHeader = "retry-after";

/**
 * The seconds to wait, or `undefined` for any value but a whole number of up to five digits. A date counts
 * as absent: it would need a clock that both sides share.
 */
export function parseRetryAfter(value: string | null | undefined): number | undefined {
  return value && /^\d{1,5}$/.test(value) ? Number(value) : undefined;
}

/**
 * The seconds of the first preference `wait` in a header `Prefer` or `Preference-Applied` (RFC 7240
 * §2, §4.3). The caller is willing to wait for so long.
 *
 * @returns `undefined` without that preference, or if it is no whole number of seconds.
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
