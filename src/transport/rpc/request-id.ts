export const requestIdHeader = "x-request-id";

/** As Envoy and most proxies write it. It is too short for a token, which must not reach the log. */
const requestIdForm = /^[A-Za-z0-9._:-]{1,64}$/;

/** W3C Trace Context §3.2: a version, the trace id, the parent id, flags. */
const traceparentForm = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;

/**
 * The id by which the logs of several programs speak of one call. It is that of `x-request-id`, the trace id
 * of `traceparent`, or else a random one. Callers choose it, so it proves nothing.
 */
export function requestIdOf(headers: Headers): string {
  const given = headers.get(requestIdHeader);
  if (given !== null && requestIdForm.test(given)) return given;
  const [, traceId] = traceparentForm.exec(headers.get("traceparent") ?? "") ?? [];
  return traceId ?? crypto.randomUUID();
}
