import type { HeaderFields } from "../../foundation/headers.ts";
import type { TraceContext } from "../../foundation/trace-context.ts";

export const requestIdHeader = "x-request-id";

/** As Envoy and most proxies write it. It is too short for a token, which must not reach the log. */
const requestIdForm = /^[A-Za-z0-9._:-]{1,64}$/;

/**
 * The id by which the logs of several programs speak of one call: that of `x-request-id`, or else the trace
 * id. Callers choose it, so it proves nothing.
 */
export function requestIdOf(headers: HeaderFields, { traceId }: TraceContext): string {
  const given = headers.get(requestIdHeader);
  return given !== null && requestIdForm.test(given) ? given : traceId;
}
