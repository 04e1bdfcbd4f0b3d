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
