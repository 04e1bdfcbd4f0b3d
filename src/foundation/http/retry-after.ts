/** The header, or the trailer of gRPC, by which a server asks a client to wait (RFC 9110 §10.2.3). */
export const retryAfterHeader = "retry-after";

/**
 * The seconds to wait, or `undefined` for any value but a whole number of up to five digits. A date counts
 * as absent: it would need a clock that both sides share.
 */
export function parseRetryAfter(value: string | null | undefined): number | undefined {
  return value && /^\d{1,5}$/.test(value) ? Number(value) : undefined;
}
