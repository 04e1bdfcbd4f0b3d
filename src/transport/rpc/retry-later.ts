import { Code, ConnectError } from "@connectrpc/connect";
import { retryAfterHeader } from "../../foundation/headers.ts";

/** The least wait where nobody knows how long a trouble lasts. Another replica may answer sooner. */
const leastSeconds = 2;

/**
 * The `retry-after` of a refusal. It lies between the wait and twice the wait, in whole seconds, and the
 * millisecond of the call decides where: callers that were refused together do not come back together.
 */
export function retryAfter(seconds: number, now: Date): Record<string, string> {
  const spread = seconds * (1 + now.getUTCMilliseconds() / 1000);
  return { [retryAfterHeader]: String(Math.max(1, Math.ceil(spread))) };
}

/** The `retry-after` of a refusal that may end at any time. */
export function retrySoon(now: Date): Record<string, string> {
  return retryAfter(leastSeconds, now);
}

/** The public sentence of a CA that cannot answer now. */
export const unavailableSentence = "certificate authority is temporarily unavailable";

/** The refusal of a CA that cannot answer now. */
export function unavailableError(now: Date): ConnectError {
  return new ConnectError(unavailableSentence, Code.Unavailable, retrySoon(now));
}
